"""Fingerprints of examples are equal for equal examples, however they are batched."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bln_search.api.inputs.example_order import fingerprint_examples, reorder_evaluations
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.data.inputs import make_structured_inputs

X, Y = torch.randn(30, 2, 3, generator=torch.Generator().manual_seed(0)), torch.arange(30) % 4


@pytest.mark.parametrize(
    "x",
    [
        X,
        X.half(),
        X.bfloat16(),
        X.double(),
        X.round().long(),
        X > 0,
        X.to(torch.complex64),
        X.transpose(1, 2),
        X[:, 0, 0],
    ],
    ids=lambda x: f"{x.dtype} {tuple(x.shape)}",
)
def test_fingerprint_does_not_depend_on_the_mini_batch(x):
    whole = fingerprint_examples(x, Y)
    parts = [fingerprint_examples(a, b) for a, b in zip(x.split(7), Y.split(7), strict=True)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_structured_inputs_have_one_fingerprint_for_each_example():
    inputs = make_structured_inputs({"x": X, "mask": X[:, 0] > 0, "scale": torch.tensor(2.0)}, 30)
    whole = fingerprint_examples(inputs, Y)
    other = make_structured_inputs({"x": X, "mask": X[:, 0] > 0, "scale": torch.tensor(3.0)}, 30)
    assert len(np.unique(whole)) == 30
    assert (fingerprint_examples(other, Y) != whole).all()
    np.testing.assert_array_equal(fingerprint_examples(inputs[10:20], Y[10:20]), whole[10:20])


def evaluation(losses):
    key = EvaluationKey(InferenceConfiguration("TT--"), "frozen", 5, Split.VALIDATION)
    return Evaluation.from_outcomes(key, ExampleOutcomes(losses.astype(np.float32), losses > 0.5))


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 10))
def test_outcomes_follow_their_examples(seed, n, distinct):
    """With equal examples too, which have equal losses here."""
    rng = np.random.default_rng(seed)
    reference = rng.integers(0, distinct, n).astype(np.uint64)
    permutation = rng.permutation(n)
    losses = reference / 10
    (reordered,) = reorder_evaluations([evaluation(losses[permutation])], reference[permutation], reference, "loader")
    np.testing.assert_array_equal(reordered.outcomes.losses, losses.astype(np.float32))
    np.testing.assert_array_equal(reordered.outcomes.correct, losses > 0.5)


@pytest.mark.parametrize(
    ("read", "message"),
    [([1, 2, 3], "3 examples for one network and 4"), ([1, 2, 3, 3], r"other examples .*\(1 of 4\)")],
)
def test_other_examples_are_refused(read, message):
    reference = np.array([1, 2, 3, 4], np.uint64)
    with pytest.raises(DataError, match=message):
        reorder_evaluations([evaluation(np.ones(len(read)))], np.array(read, np.uint64), reference, "validation_loader")


class Graph:
    """An object of one example, or of a mini-batch."""

    def __init__(self, values, dtype=None):
        self.values = values
        self.owner = self if dtype == "cyclic" else None
        self.function = (lambda: None) if dtype == "unpicklable" else None


GENERATOR = np.random.default_rng(0)
VALUES = GENERATOR.normal(size=(60, 6)).astype(np.float32)
CLASSES = torch.from_numpy(GENERATOR.integers(0, 3, 60))
OF_EXAMPLES = {
    "an array": lambda rows: VALUES[rows],
    "texts": lambda rows: [" ".join(map(str, VALUES[row])) for row in rows],
    "an object of each example": lambda rows: [Graph(torch.from_numpy(VALUES[row])) for row in rows],
    "an array of each example": lambda rows: tuple(VALUES[row] for row in rows),
    "texts in a dictionary": lambda rows: {"texts": [str(VALUES[row]) for row in rows], "language": "en"},
    "texts beside a tensor": lambda rows: (torch.ones(len(rows), 2), [str(VALUES[row]) for row in rows]),
}
OF_MINI_BATCHES = {
    "an object": lambda rows: Graph(torch.from_numpy(VALUES[rows])),
    "an object of arrays": lambda rows: (Graph(VALUES[rows]),),
    "objects in a dictionary": lambda rows: {"graph": Graph(VALUES[rows]), "edges": torch.ones(2, 3)},
    "a cyclic object": lambda rows: Graph(VALUES[rows], "cyclic"),
    "an object that cannot be pickled": lambda rows: Graph(VALUES[rows], "unpicklable"),
}


def read(make, rows, size=10):
    """The fingerprints of examples in this order, in mini-batches of new objects."""
    read_parts = []
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        inputs = make_structured_inputs((make(part), CLASSES[part]), len(part))
        read_parts.append(fingerprint_examples(inputs, CLASSES[part], start))
    return np.concatenate(read_parts)


@pytest.mark.parametrize("kind", [*OF_EXAMPLES, *OF_MINI_BATCHES])
def test_objects_in_an_equal_order_are_equal(kind):
    make = {**OF_EXAMPLES, **OF_MINI_BATCHES}[kind]
    np.testing.assert_array_equal(read(make, np.arange(60)), read(make, np.arange(60)))


@pytest.mark.parametrize("kind", OF_EXAMPLES)
@pytest.mark.parametrize("size", [1, 7, 10])
def test_entries_for_each_example_are_joined_right(kind, size):
    rows = GENERATOR.permutation(60)
    straight, shuffled = read(OF_EXAMPLES[kind], np.arange(60)), read(OF_EXAMPLES[kind], rows, size)
    np.testing.assert_array_equal(shuffled, straight[rows])
    (reordered,) = reorder_evaluations([evaluation(rows / 60)], shuffled, straight, "loader")
    np.testing.assert_array_equal(reordered.outcomes.losses, (np.arange(60) / 60).astype(np.float32))


@pytest.mark.parametrize("kind", OF_MINI_BATCHES)
def test_objects_of_several_examples_are_refused_in_another_order(kind):
    make = OF_MINI_BATCHES[kind]
    shuffled, straight = read(make, GENERATOR.permutation(60)), read(make, np.arange(60))
    with pytest.raises(DataError, match="other examples"):
        reorder_evaluations([evaluation(np.ones(60))], shuffled, straight, "validation_loader")
