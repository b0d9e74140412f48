"""Errors of the BLN paper (Ziaee & Çano 2022), each shown by numbers; docs/paper_bln.md lists them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from bln_search.core.enums import Correction
from bln_search.norms import BLN, BN, LN
from bln_search.norms.moment_collection import use_new_moment_accumulators
from tests.norms.oracle import batch_mean, batch_mean_square, feature_mean, feature_mean_square

VALUES = (-1.0, 0.5, 4.0)
"""A population of one feature, every value with probability 1/3."""


def population_deviation():
    mean = sum(VALUES) / len(VALUES)
    return math.sqrt(sum((value - mean) ** 2 for value in VALUES) / len(VALUES))


def mini_batches(m):
    """All mini-batches of m independent examples, each as rows (m, 1, 1): equally probable."""
    return [np.array(values).reshape(m, 1, 1) for values in itertools.product(VALUES, repeat=m)]


def mini_batch_deviations(m):
    return [math.sqrt(batch_mean_square(rows, True, 0, 0, batch_mean(rows, True, 0, 0))) for rows in mini_batches(m)]


def layer_deviation(layer, m, kind):
    """The population deviation that a layer computes from all mini-batches."""
    layer = layer.double().train()
    with use_new_moment_accumulators([layer]) as accumulators, torch.no_grad():
        for rows in mini_batches(m):
            layer(torch.from_numpy(rows[:, :, 0]))
    moments = accumulators[layer].averaged_moments(
        has_batch_statistics=layer.has_batch_statistics, has_feature_statistics=layer.has_feature_statistics
    )
    return getattr(layer.compute_population(moments, Correction.BESSEL), kind).deviation.item()


@pytest.mark.parametrize("m", [2, 3, 5])
def test_the_factor_of_eq_19_corrects_the_variance_and_not_the_deviation(m):
    """m/(m−1)·E[σ²] of Eq. 5 is σ² exactly; m/(m−1)·E[σ] of Eq. 19 is larger than σ here."""
    deviations, exact = mini_batch_deviations(m), population_deviation()
    factor = m / (m - 1)
    assert math.sqrt(factor * np.mean(np.square(deviations))) == pytest.approx(exact, rel=1e-12)
    printed = factor * np.mean(deviations)
    assert printed > 1.02 * exact
    assert layer_deviation(BLN(1, epsilon=0.0), m, "batch") == pytest.approx(printed, rel=1e-12)
    for layer in (BN(1, epsilon=0.0), BLN(1, epsilon=0.0, semantics="reference")):
        assert layer_deviation(layer, m, "batch") == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("m", [2, 5, 25])
def test_the_factor_of_eq_21_changes_a_feature_deviation_that_is_exact(m):
    """A feature deviation is over the d features of one example: with equal ones m/(m−1) is the only difference."""
    example = [1.0, -2.0, 0.5, 3.0]
    rows = np.array([example] * m).reshape(m, 1, 4)
    exact = math.sqrt(feature_mean_square(rows, 0, 0, feature_mean(rows, 0, 0)))
    layer = LN(4, epsilon=0.0).double().train()
    with use_new_moment_accumulators([layer]) as accumulators, torch.no_grad():
        layer(torch.from_numpy(rows[:, 0]))
    moments = accumulators[layer].averaged_moments(has_batch_statistics=False, has_feature_statistics=True)
    by_correction = {
        correction: layer.compute_population(moments, correction).feature.deviation.item() for correction in Correction
    }
    assert by_correction[Correction.BESSEL] == pytest.approx(m / (m - 1) * exact, rel=1e-12)
    assert by_correction[Correction.TOTAL] == pytest.approx(exact, rel=1e-12)


def printed_weights(m, epsilon=1e-4):
    """The weights of Eq. 16 without the division by √d."""
    return 1 - (1 / m + epsilon), 1 / m - epsilon


@pytest.mark.parametrize("m", [1, 2, 25, 10_000, 20_000])
def test_the_weights_of_eq_16_leave_their_printed_range(m):
    """They sum to 1 − 2ε; that of the mini-batch is −ε at m = 1, that of the features negative above m = 1/ε."""
    of_layer = [weight * 2 for weight in BLN(4).branch_weights(m)]
    np.testing.assert_allclose(of_layer, printed_weights(m), rtol=0, atol=1e-15)
    assert sum(of_layer) == pytest.approx(1 - 2e-4, rel=1e-12)
    assert (of_layer[0] < 0) == (m == 1)
    assert (of_layer[1] < -1e-12) == (m > 10_000)
    if m == 1:
        assert of_layer[0] == pytest.approx(-1e-4, rel=1e-9)


def test_the_sums_of_eq_20_and_21_run_to_d_and_not_to_the_feature():
    """Read as printed, 1/k and a sum to the index k of the feature, Eq. 20 is Eq. 12 for the last feature only."""
    x = np.random.default_rng(0).normal(size=(3, 4))
    rows = x[:, None, :]
    for i in range(3):
        means = [sum(x[i, : k + 1]) / (k + 1) for k in range(4)]
        mean = feature_mean(rows, i, 0)
        assert [abs(printed - mean) < 1e-12 for printed in means] == [False, False, False, True]
    expected = np.empty_like(x)
    for i, k in np.ndindex(*x.shape):
        mean = feature_mean(rows, i, 0)
        expected[i, k] = (x[i, k] - mean) / math.sqrt(feature_mean_square(rows, i, 0, mean) + 1e-4)
    output = LN(4).double().eval()(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(output, expected, rtol=1e-12, atol=1e-12)


def test_eq_19_with_epsilon_outside_the_root_contradicts_training():
    """With F the statistic is that of Eq. 11, ε under the root: inference on a training mini-batch is training."""
    x = torch.tensor([[0.01], [-0.01], [0.02]], dtype=torch.float64)
    rows = x.numpy()[:, None, :]
    variance = batch_mean_square(rows, True, 0, 0, batch_mean(rows, True, 0, 0))
    inside, outside = math.sqrt(variance + 1e-4), math.sqrt(variance) + 1e-4
    assert inside / outside > 1.2
    layer = BN(1).double()
    trained = layer.train()(x)
    expected = (x - x.mean()) / inside
    torch.testing.assert_close(trained, expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(layer.eval()(x), trained)


def test_eq_13_without_epsilon_is_undefined_for_equal_features():
    """0/0 as printed, in training and at inference (Eq. 21); with ε under the root the layer gives β."""
    x = np.full((2, 1, 3), 1.5)
    assert feature_mean_square(x, 0, 0, feature_mean(x, 0, 0)) == 0
    assert LN(3, epsilon=0.0).double()(torch.from_numpy(x[:, 0])).isnan().all()
    for layer in (LN(3), BLN(3)):
        layer.bias.data = torch.tensor([0.5, -1.0, 2.0])
        outputs = layer.double()(torch.from_numpy(x[:, 0]))
        torch.testing.assert_close(outputs, layer.bias.expand(2, 3), rtol=0, atol=1e-12)
