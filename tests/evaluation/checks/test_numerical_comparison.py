"""Distances between two computations, and the part of rounding in them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.evaluation.checks.numerical_comparison import is_rounding_error, loss_distance, output_distance
from bln_search.evaluation.row_evaluator import RowEvaluator
from bln_search.norms import LN
from bln_search.norms.row_batching.row_tensor import RowSpec

INFINITY, NAN = float("inf"), float("nan")


def evaluator_of(*layers):
    torch.manual_seed(0)
    network = nn.Sequential(*layers, LN(4)).eval()
    return RowEvaluator(network, [RowSpec(InferenceConfiguration("--FF"), None)], {})


class Uncopyable(nn.Linear):
    def __deepcopy__(self, memo):
        raise TypeError("this layer has no copy")


class Random(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)


@torch.no_grad()
def is_rounding(distance, *layers):
    return is_rounding_error(distance, evaluator_of(*layers), 0, [torch.randn(6, 4), torch.randn(6, 4)])


def test_small_distances_are_rounding_errors():
    assert is_rounding(1e-3, nn.Linear(4, 4))
    assert not is_rounding(1.0, nn.Linear(4, 4))


@pytest.mark.parametrize("layer", [Uncopyable(4, 4), Random()])
def test_an_unknown_effect_of_rounding_explains_no_distance(layer):
    """The network cannot be copied, or its outputs differ without rounding."""
    assert not is_rounding(1e-3, layer)


def test_equal_values_have_distance_zero():
    values = torch.tensor([1.0, INFINITY, -INFINITY, NAN])
    assert loss_distance(values, values.clone(), 1e-4) == output_distance(values, values.clone()) == 0
    assert loss_distance(values, values.flip(0), 1e-4) == output_distance(values, values.flip(0)) == INFINITY
    assert loss_distance(values[:0], values[:0], 1e-4) == 0


def test_losses_differ_by_the_largest_ratio_to_the_tolerance():
    fused, plain = torch.tensor([1.0, 3.0, 0.0], dtype=torch.float64), torch.tensor([1.0, 3.8, 0.1])
    assert loss_distance(fused, plain, 0.1) == pytest.approx(0.8 / 0.48)
