"""A wrong adapter, batch or label is one error before the population pass."""

from __future__ import annotations

import pytest

import bln_search
from bln_search.core.errors import DataError, ModelError
from tests.api.inputs.structured import (
    Network,
    Sample,
    X,
    Y,
    Z,
    keywords,
    split,
)

GOOD = split(keywords)


@pytest.mark.parametrize(
    ("train", "validation", "options", "error", "message"),
    [
        (
            GOOD,
            [{"x": X, "z": Z}],
            {},
            DataError,
            r"validation_loader yields dict\(x: float32 \(33, 5\), z: .*none of the keys labels, .*give target=",
        ),
        (GOOD, [(X, Z, Y)], {}, DataError, r"it yields \(float32 \(33, 5\), .*give target=.*, and forward="),
        (
            GOOD,
            [(X, Z, Y)],
            {"target": lambda batch: batch[2]},
            DataError,
            r"must yield \(inputs, targets\), .*it yields \(float32 \(33, 5\), .*give forward=",
        ),
        (
            GOOD,
            [{**keywords(slice(0, 6)), "weights": Y[:6]}],
            {},
            DataError,
            r"the network failed for a mini-batch of validation_loader \(TypeError: .*'weights'\).*give forward=",
        ),
        (
            GOOD,
            GOOD,
            {"forward": lambda model, batch: {"a": model(batch["x"], batch["z"])}},
            ModelError,
            r"returns dict\(a: float32 \(6, 3\)\).*give forward=",
        ),
        (
            [Sample(X, Z, Y)],
            GOOD,
            {},
            DataError,
            r"train_loader must yield inputs, .*it yields Sample\(x: float32 \(33, 5\), .*give forward=",
        ),
        (
            GOOD,
            [*GOOD[:2], {key: part[:3] for key, part in keywords(slice(12, 18)).items()} | {"x": X[:3, :4]}],
            {},
            DataError,
            "cannot be filled with examples of the first one",
        ),
    ],
)
def test_a_wrong_adapter_or_batch_is_one_error(train, validation, options, error, message):
    with pytest.raises(error, match=message):
        bln_search.evaluate_configurations(Network(), train, validation, **options)


def test_errors_of_the_first_mini_batch_come_before_the_population_pass():
    network, calls = Network(), []
    network.norms[0].register_forward_pre_hook(lambda *_: calls.append(1))
    with pytest.raises(DataError, match="the network has 3 outputs"):
        bln_search.evaluate_configurations(network, GOOD, [{**keywords(slice(0, 6)), "labels": Y[:6] + 7}])
    assert len(calls) == 1
