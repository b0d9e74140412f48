"""Numbers read from shapes, for other numbers of examples."""

from __future__ import annotations

import pytest
import torch

from bln_search.evaluation.tree.graph.shape_values import (
    ShapeValue,
    batch_scaling_flags,
    resolve_shape_values,
    wrap_shape_values,
)


@pytest.mark.parametrize(
    ("value", "doubled_value", "expected"),
    [
        (6, 12, True),
        (6, 6, False),
        (0, 0, False),
        (torch.float64, torch.float64, False),
        (torch.Size([6, 3]), torch.Size([12, 3]), (True, False)),
    ],
)
def test_numbers_that_double_scale_with_the_examples(value, doubled_value, expected):
    assert batch_scaling_flags(value, doubled_value) == expected


@pytest.mark.parametrize(
    ("value", "doubled_value"),
    [(6, 7), (6, 13), (1.5, 3.0), ("a", "b"), ((6, 3), (12, 4)), ((6, 3), (12,)), ((6, 3), 12)],
)
def test_values_that_neither_double_nor_stay_are_rejected(value, doubled_value):
    with pytest.raises(ValueError, match="twice as many"):
        batch_scaling_flags(value, doubled_value)


def test_values_follow_the_number_of_examples():
    values = [torch.zeros(6, 3), 6, 3, 12, torch.Size([6, 3]), (6, 12)]
    wrapped = wrap_shape_values(values, [False, True, False, True, (True, False), (True, True)], 6)
    assert wrapped[0] is values[0]
    assert all(isinstance(value, ShapeValue) for value in wrapped[1:])
    resolved = resolve_shape_values(wrapped, 24)
    assert resolved[0] is values[0]
    assert resolved[1:] == [24, 3, 48, torch.Size([24, 3]), (24, 48)]
    assert isinstance(resolved[4], torch.Size)
