"""MBN computes the formulas of its paper: comparison with NumPy loops over samples in float64."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.core.method import Method
from bln_search.norms import BN, MBN
from bln_search.norms.moment_collection import use_new_moment_accumulators
from bln_search.norms.network.layers import use_history_recording
from bln_search.norms.statistics import select_layer_population
from tests.norms.oracle import from_rows, to_rows

SHAPES = {"(N, D)": (5, 4), "(N, T, D)": (5, 3, 4), "(N, C, H, W)": (5, 4, 2, 3)}
EPSILON = 1e-4


def feature_axis(shape):
    return 2 if len(shape) == 3 else 1


def random_inputs(shape, count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64) * (1 + step) + step * 0.7 for step in range(count)
    ]


def pooled_statistics(batches, weights, axis):
    """Return μ̂ and σ̂² of Eq. 5 by loops over features and weighted samples."""
    d = batches[0].shape[axis]
    mean, variance = np.empty(d), np.empty(d)
    for k in range(d):
        total = count = 0.0
        for x, weight in zip(batches, weights, strict=True):
            for value in to_rows(x, axis)[:, :, k].ravel():
                total += weight * value
                count += weight
        mean[k] = total / count
        total = 0.0
        for x, weight in zip(batches, weights, strict=True):
            for value in to_rows(x, axis)[:, :, k].ravel():
                total += weight * (value - mean[k]) ** 2
        variance[k] = total / count
    return mean, variance


def normalize(x, mean, deviation, layer, axis):
    rows = to_rows(x, axis)
    gamma, beta = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    return from_rows(gamma * (rows - mean) / deviation + beta, x.shape, axis)


def random_layer(shape, **options):
    layer = MBN(shape[feature_axis(shape)], **options).double()
    generator = torch.Generator().manual_seed(7)
    layer.weight.data = torch.randn(layer.weight.shape, generator=generator, dtype=torch.float64)
    layer.bias.data = torch.randn(layer.bias.shape, generator=generator, dtype=torch.float64)
    return layer


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(("lambda_", "eta", "k"), [(0.5, 0.9, 3), (1.0, 1.0, 2), (0.1, 0.5, 10)])
def test_training_normalizes_over_the_mini_batch_and_the_memory(shape, lambda_, eta, k):
    layer = random_layer(shape, memory_size=k, memory_decay=eta, lambda_=lambda_)
    axis = feature_axis(shape)
    inputs = random_inputs(shape, 6)
    for step, x in enumerate(inputs):
        remembered = inputs[max(0, step - k) : step]
        weights = [lambda_ * eta**age for age in range(len(remembered))][::-1]
        batches = [*(batch.numpy() for batch in remembered), x.numpy()]
        mean, variance = pooled_statistics(batches, [*weights, 1.0], axis)
        expected = normalize(x.numpy(), mean, np.sqrt(variance + EPSILON), layer, axis)
        np.testing.assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-11, atol=1e-11)


def test_mini_batches_are_weighted_by_their_size():
    layer = random_layer((5, 4), memory_size=3, lambda_=0.5)
    inputs = [torch.randn(n, 4, dtype=torch.float64) + n for n in (2, 6, 3)]
    outputs = [layer(x).detach().numpy() for x in inputs]
    mean, variance = pooled_statistics([x.numpy() for x in inputs], [0.45, 0.5, 1.0], 1)
    expected = normalize(inputs[-1].numpy(), mean, np.sqrt(variance + EPSILON), layer, 1)
    np.testing.assert_allclose(outputs[-1], expected, rtol=1e-11)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_lambda_zero_is_batch_normalization_bit_for_bit(shape):
    d = shape[feature_axis(shape)]
    mbn, bn = MBN(d, lambda_=0.0), BN(d)
    for x in random_inputs(shape, 4):
        pair = [x.float().requires_grad_() for _ in range(2)]
        outputs = [layer(values) for layer, values in zip((mbn, bn), pair, strict=True)]
        assert torch.equal(*outputs)
        for output in outputs:
            output.square().sum().backward()
        assert torch.equal(pair[0].grad, pair[1].grad)
    assert torch.equal(mbn.weight.grad, bn.weight.grad)


def test_gradients_flow_through_the_current_mini_batch_only():
    layer = random_layer((5, 4), lambda_=0.7)
    past, present = random_inputs((5, 4), 2)
    past.requires_grad_()
    layer(past)
    present.requires_grad_()
    with use_history_recording([layer], False):
        assert torch.autograd.gradcheck(layer, (present,))
        layer(present).square().sum().backward()
    assert past.grad is None


def test_the_gradient_treats_the_memory_as_constant():
    """The expected gradients are central differences of Eq. 5 as a NumPy loop."""
    layer = random_layer((3, 2), lambda_=0.6, memory_size=2)
    past, present = random_inputs((3, 2), 2)
    layer(past)
    present.requires_grad_()
    with use_history_recording([layer], False):
        (layer(present) ** 3).sum().backward()

    def loss(x):
        mean, variance = pooled_statistics([past.numpy(), x], [0.6, 1.0], 1)
        return (normalize(x, mean, np.sqrt(variance + EPSILON), layer, 1) ** 3).sum()

    x = present.detach().numpy()
    for index in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[index] = 1e-6
        gradient = (loss(x + step) - loss(x - step)) / 2e-6
        assert math.isclose(gradient, present.grad[index].item(), rel_tol=1e-5, abs_tol=1e-6)


def test_the_memory_holds_only_the_last_mini_batches():
    layer = random_layer((5, 4), memory_size=3)
    inputs = random_inputs((5, 4), 7)
    for x in inputs:
        layer(x)
    means = np.stack([x.numpy().mean(0) for x in reversed(inputs[-3:])])
    np.testing.assert_allclose(layer.memory[:, 0, 0].numpy(), means, rtol=1e-12)


def test_a_double_forward_records_the_second_pass_only():
    layer = random_layer((5, 4), memory_size=3)
    first, second = random_inputs((5, 4), 2)
    with use_history_recording([layer], False):
        layer(first)
    assert layer.memory is None
    layer(second)
    np.testing.assert_allclose(layer.memory[0, 0, 0].numpy(), second.numpy().mean(0), rtol=1e-12)


def test_sources_are_named_by_texts():
    assert {str(each) for each in all_configurations(Method.MBN, ("memory",))} == {"MM--"} | {
        str(each) for each in all_configurations(Method.MBN, ())
    } | {"MT--", "MF--", "TM--", "FM--"}
    with pytest.raises(ValueError, match="no source of MBN 'memmory': choose one of"):
        all_configurations(Method.MBN, ("memmory",))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("configuration", all_configurations(Method.MBN), ids=str)
def test_each_statistic_comes_from_its_source(configuration, shape):
    layer = random_layer(shape, memory_size=3, memory_decay=0.8)
    axis = feature_axis(shape)
    inputs = random_inputs(shape, 5)
    with use_new_moment_accumulators([layer]) as accumulators:
        for x in inputs:
            layer(x)
    moments_by_estimate = {
        PopulationEstimate.FROZEN: accumulators[layer].averaged_moments(
            has_batch_statistics=True, has_feature_statistics=False
        ),
        **layer.moments_by_estimate_from_history(),
    }
    populations = {
        estimate: layer.compute_population(moments, Correction.TOTAL)
        for estimate, moments in moments_by_estimate.items()
    }
    estimate = PopulationEstimate.FROZEN if configuration.uses_population else None
    layer.eval()
    layer.configure(configuration, select_layer_population(configuration, estimate, populations))

    x = random_inputs(shape, 1, seed=9)[0] * 2 + 1
    sources = {
        "M": pooled_statistics([batch.numpy() for batch in inputs[-3:]], [0.64, 0.8, 1.0], axis),
        "T": pooled_statistics([batch.numpy() for batch in inputs], [1.0] * 5, axis),
        "F": pooled_statistics([x.numpy()], [1.0], axis),
    }
    code = str(configuration)
    mean, deviation = sources[code[0]][0], np.sqrt(sources[code[1]][1] + EPSILON)
    expected = normalize(x.numpy(), mean, deviation, layer, axis)
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-10, atol=1e-10)


def test_without_configured_values_the_present_memory_is_used():
    layer = random_layer((5, 4))
    for x in random_inputs((5, 4), 3):
        layer(x)
    layer.eval().configure(all_configurations(Method.MBN)[0])
    x = random_inputs((5, 4), 1, seed=5)[0]
    outputs = layer(x)
    restored = MBN(4).double()
    restored.load_state_dict(layer.state_dict())
    assert torch.equal(restored.eval()(x), outputs)
    assert torch.equal(copy.deepcopy(layer)(x), outputs)
    layer.train()(x + 3)
    assert not torch.equal(layer.eval()(x), outputs)


def test_an_empty_memory_is_an_error():
    layer = MBN(4).eval()
    layer.configure(all_configurations(Method.MBN)[0])
    with pytest.raises(ModelError, match=r"MM-- .* E_B .* memory"):
        layer(torch.randn(5, 4))


@pytest.mark.parametrize("options", [{"memory_size": 0}, {"memory_decay": 0.0}, {"lambda_": 1.5}])
def test_impossible_options_are_an_error(options):
    with pytest.raises(ModelError, match="MBN takes"):
        MBN(4, **options)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.floats(0.01, 1), st.floats(0.05, 1))
def test_variance_between_mini_batches_is_never_negative(sizes, lambda_, eta):
    """Law of total variance: the variance between mini-batches is added to the variance within them."""
    layer = MBN(2, lambda_=lambda_, memory_decay=eta, memory_size=4).double()
    for step, size in enumerate(sizes):
        layer(torch.full((size, 2), float(step), dtype=torch.float64))
    moments = layer.moments_by_estimate_from_history()[PopulationEstimate.MEMORY].batch
    assert (moments.variance == 0).all()
    assert (moments.variance_of_mean >= 0).all()


def trained_layer():
    layer = random_layer((5, 4))
    for x in random_inputs((5, 4), 3):
        layer(x)
    moments = layer.moments_by_estimate_from_history()[PopulationEstimate.MEMORY]
    shifted = replace(moments.batch, mean=moments.batch.mean + 5)
    frozen = layer.compute_population(replace(moments, batch=shifted), Correction.TOTAL)
    return layer.eval(), {PopulationEstimate.FROZEN: frozen}


def test_memory_and_population_values_are_not_confused():
    layer, populations = trained_layer()
    from_memory, from_population = InferenceConfiguration("MM--"), InferenceConfiguration("TT--")
    x = random_inputs((5, 4), 1, seed=5)[0]
    layer.configure(from_memory)
    memory_outputs = layer(x)
    layer.configure(from_population, populations[PopulationEstimate.FROZEN])
    population_outputs = layer(x)
    layer.configure(from_memory)
    assert torch.equal(layer(x), memory_outputs)
    layer.configure(from_population)
    assert torch.equal(layer(x), population_outputs)
    memory = {
        PopulationEstimate.MEMORY: layer.compute_population(
            layer.moments_by_estimate_from_history()["memory"], Correction.TOTAL
        )
    }
    layer.configure(from_memory, select_layer_population(from_memory, None, memory))
    restored = MBN(4).double().eval()
    restored.load_state_dict(layer.state_dict())
    for mbn in (layer, restored):
        mbn.configure(from_population)
        with pytest.raises(ModelError, match=r"TT-- .* E_B .* population"):
            mbn(x)


def test_the_memory_follows_a_change_of_dtype():
    layer, _ = trained_layer()
    layer.configure(all_configurations(Method.MBN)[0])
    x = random_inputs((5, 4), 1, seed=5)[0]
    outputs = layer(x)
    assert layer.float()(x.float()).dtype == torch.float32
    torch.testing.assert_close(layer.double()(x), outputs, rtol=1e-5, atol=1e-5)
