"""Linear layers over scaled inputs, and moments, equal loops over single examples for pieces of any size."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bln_search.norms.row_batching import dense_in_pieces
from bln_search.norms.row_batching.dense_in_pieces import (
    LinearOfScaledInput,
    compute_linear_in_pieces,
    compute_means_and_variances,
)

GROUPS, SIZE, UNITS, CLASSES = 5, 3, 4, 2
PIECES = [1, SIZE * UNITS, 2 * SIZE * UNITS, 2**18]
"""Values of a piece: less than a mini-batch, one mini-batch, two, all."""


@pytest.fixture(params=PIECES)
def piece(request, monkeypatch):
    monkeypatch.setattr(dense_in_pieces, "_PIECE", request.param)


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape)))


def inputs(layout):
    x = random(GROUPS, SIZE, UNITS)
    return x if layout == "contiguous" else x.transpose(0, 1).contiguous().transpose(0, 1)


def expected_outputs(x, layer):
    """Return the outputs (G, N, K) by a loop over all values."""
    x, weight = x.numpy(), layer.weight.numpy()
    centre = np.broadcast_to(layer.centre.numpy(), x.shape)
    scale = np.ones(x.shape) if layer.scale is None else np.broadcast_to(layer.scale.numpy(), x.shape)
    outputs = np.zeros((*x.shape[:2], len(weight)))
    for group, example, output in np.ndindex(*outputs.shape):
        for unit in range(x.shape[2]):
            at = group, example, unit
            outputs[group, example, output] += weight[output, unit] * (x[at] - centre[at]) * scale[at]
    return outputs


@pytest.mark.usefixtures("piece")
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
@pytest.mark.parametrize("classes_first", [True, False])
def test_outputs_equal_a_loop_over_values(layout, classes_first):
    x, mean, population = inputs(layout), random(GROUPS, 1, UNITS), random(1, UNITS)
    layers = [
        LinearOfScaledInput(mean, random(GROUPS, 1, UNITS).exp(), random(CLASSES, UNITS)),
        LinearOfScaledInput(population, None, random(2 * CLASSES, UNITS)),
        LinearOfScaledInput(mean, None, random(1, UNITS)),
        LinearOfScaledInput(random(GROUPS, SIZE, 1), None, random(CLASSES, UNITS)),
        LinearOfScaledInput(population, random(1, 1, UNITS), random(CLASSES, UNITS)),
    ]
    outputs = compute_linear_in_pieces(x, layers, classes_first=classes_first)
    for layer, output in zip(layers, outputs, strict=True):
        expected = expected_outputs(x, layer)
        actual = output.permute(1, 2, 0) if classes_first else output
        np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("piece")
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
@pytest.mark.parametrize("axes", [(1,), (2,), (1, 2)])
def test_moments_equal_those_of_numpy(layout, axes):
    x = inputs(layout)
    moments = compute_means_and_variances(x, axes)
    for axis, (mean, variance) in zip(axes, moments, strict=True):
        np.testing.assert_allclose(mean.numpy(), x.numpy().mean(axis, keepdims=True), rtol=1e-12)
        np.testing.assert_allclose(variance.numpy(), x.numpy().var(axis, keepdims=True), rtol=1e-12)


@pytest.mark.usefixtures("piece")
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_value_that_is_not_finite_changes_its_own_mini_batch_only(value):
    x = inputs("contiguous")
    x[1, 2, 3] = value
    ((mean, variance),) = compute_means_and_variances(x, [1])
    finite = torch.tensor([group != 1 for group in range(GROUPS)])
    assert torch.equal(variance.isfinite().all(2).flatten(), finite)
    layer = LinearOfScaledInput(mean, 1 / variance.sqrt(), random(CLASSES, UNITS))
    (outputs,) = compute_linear_in_pieces(x, [layer], classes_first=True)
    assert torch.equal(outputs.isfinite().all(2).all(0), finite)
