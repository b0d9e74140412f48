"""Wrong arguments are one clear error before any call of the network."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

import bln_search
from bln_search.core.errors import DataError
from tests.api.misuse.counted_network import TRAIN, VALIDATION, Counted
from tests.api.own_network import make_network

WRONG_ARGUMENTS = {
    "batch_sizes": [0, [0], [2.5], [True], "4", [], [[4]], np.array([]), iter([4])],
    "blends": [0.5, "0.5", [2.0], [0], [float("nan")], [True], [None], ["N"], ["N0"], ["Ninf"], ["x"], [[0.5]], {0.5}],
    "moving": [0.9, "0.9", [1.0], [0], [True], ["N"], {0.9}],
    "memory_limit": [0, 2.5, "1 GB", None, True],
    "one_pass": ["no", 0, None],
    "per_slot": ["no", 1],
    "correction": ["besel", None, 3],
    "score": ["accuracy", None, 3, nn.MSELoss, nn.CrossEntropyLoss(reduction="sum")],
    "forward": ["logits", 3],
    "target": ["labels", 1],
    "gathered": [3, {"epoch": 3}, [1]],
    "metrics": [3, ["f1"], {"f1": 3}, {"loss": max}, {"accuracy_deviation": max}, {" ": max}, {1: max}],
    "test_loader": [3, {"clean": VALIDATION}],
}


@pytest.mark.parametrize(
    ("argument", "position"),
    [(name, position) for name, values in WRONG_ARGUMENTS.items() for position in range(len(values))],
)
def test_wrong_arguments_are_one_error_without_a_call_of_the_network(argument, position):
    network, value = Counted(), WRONG_ARGUMENTS[argument][position]
    with pytest.raises((ValueError, TypeError, DataError)) as caught:
        bln_search.evaluate_configurations(network, TRAIN, VALIDATION, **{argument: value})
    assert network.calls == 0
    words = {
        "batch_sizes": "batch_sizes",
        "blends": "blend",
        "moving": "moving|blend",
        "score": "reduction|score",
        "metrics": "metric",
    }
    assert caught.match(words.get(argument, argument))


def test_equal_batch_sizes_are_evaluated_once():
    network = make_network()
    twice = bln_search.evaluate_configurations(network, TRAIN, VALIDATION, batch_sizes=[5, np.int64(5)])
    once = bln_search.evaluate_configurations(network, TRAIN, VALIDATION, batch_sizes=np.array([5]))
    assert twice.to_records() == once.to_records()
    assert {type(row.batch_size) for row in twice.board.rows} == {int}
