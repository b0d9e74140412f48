"""BRN computes the formulas of its paper: comparison with a NumPy loop in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.norms import BN, BRN
from bln_search.norms.network.layers import use_history_recording

EPSILON = 1e-4
SHAPES = {"(N, D)": (6, 3), "(N, C, H, W)": (4, 3, 2, 2)}


def random_inputs(shape, count):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) * (1 + i) + i for i in range(count)]


class Averages:
    """Moving averages with normalized weights, as sums over all steps."""

    def __init__(self, momentum):
        self.momentum, self.history = momentum, []

    def __call__(self, k):
        weights = [self.momentum**age for age in range(len(self.history))][::-1]
        mean = sum(w * m[k] for w, (m, _) in zip(weights, self.history, strict=True)) / sum(weights)
        deviation = sum(w * s[k] for w, (_, s) in zip(weights, self.history, strict=True)) / sum(weights)
        return mean, deviation


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(("r_max", "d_max"), [(3.0, 5.0), (1.2, 0.3), (1.0, 0.0)])
def test_training_corrects_towards_the_moving_averages(shape, r_max, d_max):
    layer = BRN(3, momentum=0.8, r_max=r_max, d_max=d_max).double()
    averages = Averages(0.8)
    for x in random_inputs(shape, 5):
        values = x.numpy()
        axes = tuple(axis for axis in range(values.ndim) if axis != 1)
        mean, deviation = values.mean(axes), np.sqrt(values.var(axes) + EPSILON)
        expected = np.empty_like(values)
        for k in range(3):
            r, d = 1.0, 0.0
            if averages.history:
                moving_mean, moving_deviation = averages(k)
                r = min(max(deviation[k] / moving_deviation, 1 / r_max), r_max)
                d = min(max((mean[k] - moving_mean) / moving_deviation, -d_max), d_max)
            expected[:, k] = (values[:, k] - mean[k]) / deviation[k] * r + d
        np.testing.assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-11, atol=1e-11)
        averages.history.append((mean, deviation))


@pytest.mark.parametrize("sign", [1, -1])
def test_by_default_r_is_at_most_3_and_d_at_most_5(sign):
    layer = BRN(3).double()
    first, _ = random_inputs((6, 3), 2)
    layer(first)
    x = 100 * first**sign + sign * 1e4
    normalized = ((x - x.mean(0)) / torch.sqrt(x.var(0, correction=0) + EPSILON)).numpy()
    np.testing.assert_allclose(layer(x).detach().numpy(), 3 * normalized + sign * 5, rtol=1e-9)


def test_without_correction_brn_equals_batch_normalization():
    brn, bn = BRN(3, r_max=1.0, d_max=0.0), BN(3)
    for x in random_inputs((6, 3), 3):
        torch.testing.assert_close(brn(x.float()), bn(x.float()), rtol=1e-6, atol=1e-6)


def test_r_and_d_are_constants_to_the_gradient():
    layer = BRN(3, momentum=0.5).double()
    previous, x = random_inputs((6, 3), 2)
    layer(previous)
    x.requires_grad_()
    with use_history_recording([layer], False):
        (layer(x) ** 3).sum().backward()
    averages = layer.moving / 0.5
    values = x.detach().numpy()
    mean, deviation = values.mean(0), np.sqrt(values.var(0) + EPSILON)
    r = np.clip(deviation / averages[2, 0].numpy(), 1 / 3, 3)
    d = np.clip((mean - averages[0, 0].numpy()) / averages[2, 0].numpy(), -5, 5)

    def loss(x):
        normalized = (x - x.mean(0)) / np.sqrt(x.var(0) + EPSILON)
        return ((normalized * r + d) ** 3).sum()

    for index in np.ndindex(*values.shape):
        step = np.zeros_like(values)
        step[index] = 1e-6
        gradient = (loss(values + step) - loss(values - step)) / 2e-6
        np.testing.assert_allclose(x.grad[index].item(), gradient, rtol=1e-5, atol=1e-5)


def test_inference_uses_the_moving_averages_without_a_factor():
    layer = BRN(3, momentum=0.8).double()
    averages = Averages(0.8)
    inputs = random_inputs((6, 3), 4)
    for x in inputs:
        layer(x)
        averages.history.append((x.numpy().mean(0), np.sqrt(x.numpy().var(0) + EPSILON)))
    moments = layer.moments_by_estimate_from_history()[PopulationEstimate.MOVING]
    layer.eval().configure(InferenceConfiguration("TT--"), layer.compute_population(moments, Correction.BESSEL))
    x = inputs[0]
    expected = np.stack([(x.numpy()[:, k] - averages(k)[0]) / averages(k)[1] for k in range(3)], 1)
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-11)


def test_a_state_dict_restores_the_averages():
    layer, restored = BRN(3, momentum=0.8), BRN(3, momentum=0.8)
    previous, x = (values.float() for values in random_inputs((6, 3), 2))
    layer(previous)
    restored.load_state_dict(layer.state_dict())
    assert torch.equal(restored(x), layer(x))


def test_a_new_layer_has_no_history():
    layer = BRN(3)
    assert layer.list_extra_state_numbers() == [0, 0]
    assert layer.moments_by_estimate_from_history() == {}


def test_the_history_counts_steps_and_values_of_a_mini_batch():
    layer, restored = BRN(3), BRN(3)
    for x in random_inputs((4, 3, 2, 2), 3):
        layer(x.float())
    restored.restore_extra_state_numbers(layer.list_extra_state_numbers())
    assert restored.list_extra_state_numbers() == [3, 4 * 2 * 2]
    assert layer.moments_by_estimate_from_history()[PopulationEstimate.MOVING].values_per_batch == 16


@pytest.mark.parametrize("options", [{"momentum": 1.0}, {"r_max": 0.5}, {"d_max": -1.0}])
def test_impossible_options_are_an_error(options):
    with pytest.raises(ModelError, match="BRN takes"):
        BRN(3, **options)
