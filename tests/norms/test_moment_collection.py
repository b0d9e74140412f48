"""Population values are averages of the statistics of mini-batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Correction
from bln_search.core.errors import ModelError
from bln_search.norms import BLN
from bln_search.norms.moment_collection import (
    MomentAccumulator,
    flatten_moments_to_tensors,
    restore_moments_from_tensors,
    use_new_moment_accumulators,
)


def moments_over(layer, batches, decay=None):
    with use_new_moment_accumulators([layer], decay) as accumulators, torch.no_grad():
        for x in batches:
            layer(x)
    return accumulators[layer].averaged_moments(
        has_batch_statistics=layer.has_batch_statistics, has_feature_statistics=layer.has_feature_statistics
    )


def draw_batches(count=5, m=6, d=3):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(m, d, generator=generator, dtype=torch.float64) + i for i in range(count)]


def test_the_mean_is_over_all_mini_batches():
    data = draw_batches()
    moments = moments_over(BLN(3).double(), data)
    expected = np.mean([x.numpy().mean(0) for x in data], axis=0)
    np.testing.assert_allclose(moments.batch.mean.numpy()[0], expected, rtol=1e-12)


def test_a_moving_average_has_normalized_weights():
    data = draw_batches()
    moments = moments_over(BLN(3).double(), data, decay=0.9)
    weights = np.array([0.9 ** (len(data) - 1 - i) for i in range(len(data))])
    expected = np.average([x.numpy().mean(0) for x in data], axis=0, weights=weights)
    np.testing.assert_allclose(moments.batch.mean.numpy()[0], expected, rtol=1e-12)


def test_an_incomplete_mini_batch_is_excluded():
    data = draw_batches()
    complete = moments_over(BLN(3).double(), data)
    with_incomplete = moments_over(BLN(3).double(), [*data, data[0][:2] * 100])
    torch.testing.assert_close(with_incomplete.batch.mean, complete.batch.mean, rtol=0, atol=0)


def test_a_short_first_mini_batch_is_excluded():
    data = draw_batches()
    complete = moments_over(BLN(3).double(), data)
    with_short = moments_over(BLN(3).double(), [data[0][:2] * 100, *data])
    torch.testing.assert_close(with_short.batch.mean, complete.batch.mean, rtol=0, atol=0)


def test_passes_in_evaluation_mode_are_not_accumulated():
    layer = BLN(3).double()
    with use_new_moment_accumulators([layer]) as accumulators:
        layer.eval()(draw_batches()[0])
    assert accumulators[layer].is_empty


def test_total_is_the_deviation_of_all_examples_together():
    """Law of total variance: the variances between and within mini-batches add up."""
    data = draw_batches()
    layer = BLN(3, epsilon=1e-12).double()
    population = layer.compute_population(moments_over(layer, data), Correction.TOTAL)
    np.testing.assert_allclose(population.batch.deviation.numpy()[0], torch.cat(data).numpy().std(0), rtol=1e-9)


def test_the_bessel_deviation_is_undefined_for_batches_of_one():
    layer = BLN(3).double()
    moments = moments_over(layer, draw_batches(m=1))
    bessel = layer.compute_population(moments, Correction.BESSEL)
    for code in ("TTFF", "FTFF", "FFFT", "TFTT"):
        assert "m = 1" in bessel.find_undefined_reason(InferenceConfiguration(code))
        with pytest.raises(ModelError, match="m = 1"):
            layer.configure(InferenceConfiguration(code), bessel)
    for code in ("FFFF", "TFFF", "FFTF", "TFTF"):
        assert bessel.find_undefined_reason(InferenceConfiguration(code)) is None
    total = layer.compute_population(moments, Correction.TOTAL)
    assert total.find_undefined_reason(InferenceConfiguration("TTTT")) is None
    assert torch.isfinite(total.batch.deviation).all()


def test_accumulation_ends_with_its_context():
    layer = BLN(3)
    with use_new_moment_accumulators([layer]):
        assert layer.accumulators
    assert not layer.accumulators


def test_moments_survive_a_checkpoint():
    moments = {"a.b": moments_over(BLN(3).double(), draw_batches())}
    restored = restore_moments_from_tensors(flatten_moments_to_tensors(moments))["a.b"]
    assert (restored.batch_size, restored.values_per_batch) == (6, 6)
    for part, expected in zip(restored.feature.as_tuple, moments["a.b"].feature.as_tuple, strict=True):
        torch.testing.assert_close(part, expected, rtol=0, atol=0)


def test_mean_squares_of_earlier_checkpoints_become_variances():
    """Var[μ] = E[μ²] - E[μ]², which rounding may make negative."""
    tensors = flatten_moments_to_tensors({"a": moments_over(BLN(3).double(), draw_batches())})
    mean, variance = tensors["a|batch|mean"], tensors.pop("a|batch|variance_of_mean")
    square = mean.square() + variance * 1e-3
    square[0, 0] = mean[0, 0].square() - 1e-9
    restored = restore_moments_from_tensors({**tensors, "a|batch|mean_square": square})["a"].batch.variance_of_mean
    assert restored[0, 0] == 0
    torch.testing.assert_close(restored[0, 1:], variance[0, 1:] * 1e-3)


def test_sizes_that_differ_are_all_included_on_request():
    """As with the nodes of graphs: each mini-batch counts once, and feature statistics are pooled over its nodes."""
    data = [x[: 3 + i] for i, x in enumerate(draw_batches(count=4, m=8))]
    layer = BLN(3, epsilon=1e-3).double()
    with use_new_moment_accumulators([layer]) as accumulators, torch.no_grad():
        accumulators[layer].includes_all_sizes = True
        for x in data:
            layer(x)
    moments = accumulators[layer].averaged_moments(has_batch_statistics=True, has_feature_statistics=True)
    arrays = [x.numpy() for x in data]
    expected = [
        np.mean([x.mean(0) for x in arrays], axis=0),
        np.var([x.mean(0) for x in arrays], axis=0),
        np.mean([np.sqrt(x.var(0) + 1e-3) for x in arrays], axis=0),
        np.mean([x.var(0) for x in arrays], axis=0),
    ]
    for part, value in zip(moments.batch.as_tuple, expected, strict=True):
        np.testing.assert_allclose(part.numpy()[0], value, rtol=1e-12)
    means = [x.mean(1) for x in arrays]
    total = np.mean([np.square(mean).mean() for mean in means]) - np.mean([mean.mean() for mean in means]) ** 2
    assert moments.feature.mean.item() == pytest.approx(np.mean([mean.mean() for mean in means]), rel=1e-12)
    assert moments.feature.variance_of_mean.item() == pytest.approx(total, rel=1e-12)
    assert (moments.batch_size, moments.values_per_batch) == (4, 4)  # the mean of 3, 4, 5 and 6, to the even number


@pytest.mark.parametrize("sizes", [[12], [1, 11], [5, 1, 6], [4, 4, 4], [1] * 12])
def test_several_mini_batches_at_once_give_the_mean_over_all(sizes):
    """Also where means are far from zero."""
    statistics = [torch.randn(12, *shape, dtype=torch.float64) + 1e6 for shape in [(1, 4), (3, 1), (2, 2)]]
    accumulator, start = MomentAccumulator(in_evaluation=True), 0
    for size in sizes:
        several = [value[start : start + size] for value in statistics]
        if size == 1:
            accumulator.update([value[0] for value in several], 7, 21)
        else:
            accumulator.update_with_several(several, 7, 21)
        start += size
    moments = accumulator.averaged_moments(has_batch_statistics=True, has_feature_statistics=False)
    expected = [value.numpy() for value in statistics]
    np.testing.assert_allclose(moments.batch.mean, expected[0].mean(0), rtol=1e-14)
    np.testing.assert_allclose(moments.batch.variance_of_mean, expected[0].var(0), rtol=1e-9)
    np.testing.assert_allclose(moments.batch.deviation, expected[1].mean(0), rtol=1e-14)
    np.testing.assert_allclose(moments.batch.variance, expected[2].mean(0), rtol=1e-14)
    assert (accumulator.batches_seen, accumulator.batches_included) == (12, 12)
    assert (moments.batch_size, moments.values_per_batch) == (7, 21)


def test_smaller_mini_batches_at_once_are_excluded_and_larger_ones_begin_anew():
    accumulator = MomentAccumulator(in_evaluation=True)
    for value, size in ((1.0, 4), (2.0, 3), (3.0, 5)):
        accumulator.update_with_several([torch.full((2, 1, 3), value)] * 3, size, size)
    moments = accumulator.averaged_moments(has_batch_statistics=True, has_feature_statistics=False)
    assert torch.equal(moments.batch.mean, torch.full((1, 3), 3.0, dtype=torch.float64))
    assert (accumulator.batches_seen, accumulator.batches_included, accumulator.batch_size) == (6, 2, 5)


def test_mini_batches_at_once_of_another_shape_are_an_error():
    accumulator = MomentAccumulator(in_evaluation=True)
    accumulator.update_with_several([torch.ones(2, 1, 3)] * 3, 4, 4)
    with pytest.raises(ModelError, match="shape"):
        accumulator.update_with_several([torch.ones(2, 1, 5)] * 3, 4, 4)
