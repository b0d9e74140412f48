"""Wrong data and arguments of a per-layer search are one error before any pass."""

from __future__ import annotations

import copy

import pytest

import bln_search
from bln_search.core.errors import DataError, ModelError
from tests.api.misuse.counted_network import TRAIN, VALIDATION, Counted, batches, with_batch, with_nan

WRONG_SEARCHES = {
    "more folds than mini-batches": ((TRAIN, batches(20)), {"folds": 3}, DataError, "3 folds of 2 mini-batches"),
    "inputs with NaN": ((TRAIN, with_batch(0, with_nan)), {}, DataError, "validation_loader yields inputs with NaN"),
    "a late class": (
        (TRAIN, with_batch(3, lambda x, y: (x, y + 7))),
        {},
        DataError,
        "validation_loader yields the class",
    ),
    "an iterator given twice": ((TRAIN, iter(VALIDATION)), {}, DataError, "are the same"),
    "other features": ((TRAIN, [(x[:, :3], y) for x, y in VALIDATION]), {}, DataError, r"float32 \(10, 3\)"),
    "other groups": ((TRAIN, VALIDATION), {"groups": {"a": ["layer9"]}}, ModelError, "layer9"),
    "no memory": ((TRAIN, VALIDATION), {"memory_limit": 0}, ValueError, "memory_limit"),
}


@pytest.mark.parametrize("kind", WRONG_SEARCHES)
def test_wrong_per_layer_search_is_one_error_before_any_pass(kind):
    (train, validation), options, error, message = WRONG_SEARCHES[kind]
    network, options = Counted(), copy.copy(options)
    if kind == "an iterator given twice":
        validation = iter(batches())
        options["test_loader"] = validation
    with pytest.raises(error, match=message):
        bln_search.search_layers(network, train, validation, **options)
    assert network.calls <= 2
