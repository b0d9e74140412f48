"""Distances between two computations, and the part of rounding in them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.evaluation.checks.numerical_comparison import (
    _perturb_by_rounding,
    is_rounding_error,
    loss_distance_in_tolerances,
    output_distance_in_tolerances,
)
from bln_search.evaluation.row_evaluator import RowEvaluator
from bln_search.norms import LN
from bln_search.norms.row_batching.row_tensor import InferenceRow

INFINITY, NAN = float("inf"), float("nan")


def evaluator_of(*layers):
    torch.manual_seed(0)
    network = nn.Sequential(*layers, LN(4)).eval()
    return RowEvaluator(network, [InferenceRow(InferenceConfiguration("--FF"), None)], {})


class Uncopyable(nn.Linear):
    def __deepcopy__(self, memo):
        raise TypeError("this layer has no copy")


class Random(nn.Module):
    generator = torch.Generator()  # of the class, so that passes do not restore it

    def forward(self, x):
        return x + torch.rand(x.shape, generator=self.generator)


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
    assert (
        loss_distance_in_tolerances(values, values.clone(), 1e-4)
        == output_distance_in_tolerances(values, values.clone())
        == 0
    )
    assert (
        loss_distance_in_tolerances(values, values.flip(0), 1e-4)
        == output_distance_in_tolerances(values, values.flip(0))
        == INFINITY
    )
    assert loss_distance_in_tolerances(values[:0], values[:0], 1e-4) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_outputs_differ_by_the_largest_ratio_to_their_tolerance(dtype):
    """√ε·(size + median size at the position) + 4 ε·(largest element that differs)."""
    generator = torch.Generator().manual_seed(0)
    plain = torch.randn(7, 3, generator=generator, dtype=dtype) * torch.tensor([1.0, 10.0, 1e6], dtype=dtype)
    fused = plain * (1 + 1e-3 * torch.randn(7, 3, generator=generator, dtype=dtype))
    fused[:, 2] = plain[:, 2]
    fused[0, 2] = plain[0, 2] * 1.001
    epsilon = np.finfo(np.float32 if dtype == torch.float32 else np.float64).eps
    x, y = fused.numpy().astype(np.float64), plain.numpy().astype(np.float64)
    largest = max(abs(y[i, j]) for i, j in np.ndindex(7, 3) if x[i, j] != y[i, j])
    expected = max(
        abs(x[i, j] - y[i, j])
        / (np.sqrt(epsilon) * (abs(y[i, j]) + np.median(np.abs(y[:, j]))) + 4 * epsilon * largest)
        for i, j in np.ndindex(7, 3)
    )
    assert output_distance_in_tolerances(fused, plain) == pytest.approx(expected, rel=1e-6)


def test_integral_values_are_not_rounded_as_they_may_be_ids():
    x = torch.tensor([3.0, -2.0, 0.0, 0.3, -1.7], dtype=torch.float64)
    moved = _perturb_by_rounding(x, torch.Generator().manual_seed(0)) - x
    assert (moved[:3] == 0).all()
    torch.testing.assert_close(moved[3:].abs(), x[3:].abs() * torch.finfo(x.dtype).eps, rtol=0.6, atol=0)
