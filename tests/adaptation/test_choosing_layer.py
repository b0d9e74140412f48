"""A layer takes the row with the least estimated risk, as a loop over the formula does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bln_search.adaptation.choosing_layer import ChoosingLayer, MenuWeights
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.row_menu import DEFAULT_MENU, parse_menu
from bln_search.norms import BLN, BN
from bln_search.norms.statistics import LayerPopulation, PopulationPair

CHANNELS = 3


def make_layer(norm=BN, menu=DEFAULT_MENU, smallest=2):
    generator = torch.Generator().manual_seed(3)
    layer = norm(CHANNELS).double().eval()
    with torch.no_grad():
        layer.weight.uniform_(0.5, 1.5, generator=generator)
        layer.bias.normal_(generator=generator)
    pairs = [
        PopulationPair(torch.randn(1, size, generator=generator).double(), torch.full((1, size), 1.2).double())
        for size in (CHANNELS, 1)
    ]
    layer.configure(InferenceConfiguration("TTTT"), LayerPopulation(pairs[0], pairs[1] if norm is BLN else None))
    return ChoosingLayer(layer, MenuWeights(parse_menu(menu)).double(), smallest).double()


def make_mini_batch(layer, shift, scale=1.0, size=12, seed=0):
    """Examples (size, 3, 2, 2) with means of their own around the population, moved and scaled."""
    generator = torch.Generator().manual_seed(seed)
    means = torch.randn(size, CHANNELS, 1, 1, generator=generator).double()
    noise = torch.randn(size, CHANNELS, 2, 2, generator=generator).double()
    return layer.stored_mean[0].view(CHANNELS, 1, 1) + shift + scale * (0.6 * means + noise)


def compute_choice(x, layer, stored, concentration=None):
    """Row, shift and output by loops over channels and rows, in NumPy."""
    x, size = x.numpy(), len(x)
    n = 1 if concentration is None else size / (1 + size * concentration)
    weights = [1, 16 / (16 + size), 0.9, 0]
    distances, variance, values = np.zeros(4), 0.0, []
    for c in range(CHANNELS):
        of_channel = x[:, c].reshape(size, -1)
        b = of_channel.mean()
        v = ((of_channel - b) ** 2).mean() + layer.layer.formula_variant.epsilon
        unit = stored[0][1][c]
        of_means = of_channel.mean(1).var(ddof=1)
        of_variances = ((of_channel - b) ** 2).mean(1).var(ddof=1) / (4 * v)
        variance += (of_means + of_variances) / n / unit / CHANNELS
        for r in range(4):
            mean, square = stored[r][0][c], stored[r][1][c]
            distances[r] += ((b - mean) ** 2 + (np.sqrt(v) - np.sqrt(square)) ** 2) / unit / CHANNELS
        values.append((b, v))
    risks = [w**2 * (d - variance) + (1 - w) ** 2 * variance for w, d in zip(weights, distances, strict=True)]
    shift = distances[0] / variance
    row = int(np.argmin(risks)) if shift > 1 else 0
    w, output = weights[row], np.empty_like(x)
    moved = [(list(mean), list(square)) for mean, square in stored]
    for c, (b, v) in enumerate(values):
        mean, square = (w * stored[row][i][c] + (1 - w) * (b, v)[i] for i in (0, 1))
        gamma, beta = layer.layer.weight[c].item(), layer.layer.bias[c].item()
        output[:, c] = gamma * (x[:, c] - mean) / np.sqrt(square) + beta
        moved[2][0][c], moved[2][1][c] = (0.9 * stored[2][i][c] + 0.1 * (b, v)[i] for i in (0, 1))
    return row, shift, output, moved


@pytest.mark.parametrize("concentration", [None, 0.0, 0.4])
def test_choices_outputs_and_moving_values_are_those_of_the_formula(concentration):
    layer = make_layer()
    start = layer.stored_mean[0].numpy(), layer.stored_deviation[0].numpy() ** 2
    stored, rows = [start] * 4, []
    for number, (moved, scale) in enumerate([(0, 1), (0.8, 1), (0.9, 1.2), (3, 2), (3, 2), (0, 0.3), (0, 1)]):
        x = make_mini_batch(layer, moved, scale, seed=number)
        layer.concentration = None if concentration is None else torch.tensor(concentration, dtype=torch.float64)
        with torch.no_grad():
            output = layer(x)
        row, shift, expected, stored = compute_choice(x, layer, stored, concentration)
        assert layer.chosen.row == row
        assert layer.chosen.shift.item() == pytest.approx(shift, rel=1e-10)
        np.testing.assert_allclose(output.numpy(), expected, rtol=0, atol=1e-10)
        layer.keep(layer.chosen, torch.tensor(True))
        np.testing.assert_allclose(layer.stored_mean[2].numpy(), stored[2][0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(layer.stored_deviation[2].numpy() ** 2, stored[2][1], rtol=0, atol=1e-12)
        rows.append(row)
    assert len(set(rows)) > 1
    layer.reset()
    for value, initial in zip((layer.stored_mean, layer.stored_deviation.square()), start, strict=True):
        np.testing.assert_array_equal(value.numpy(), np.stack([initial] * 4))


@pytest.mark.parametrize("norm", [BN, BLN])
@pytest.mark.parametrize(("label", "code"), [("B@0.4", "BBTT"), ("B@N5", "BBTT"), ("E@0.7", "EETT"), ("F", "FFTT")])
def test_each_row_gives_what_the_layer_computes_under_its_configuration(norm, label, code):
    layer, reference = make_layer(norm, ("T", label)), make_layer(norm).layer
    reference.configure(InferenceConfiguration(code), None, parse_menu(("T", label))[1].weight)
    layer.concentration = torch.tensor(0.0).double()
    for seed in range(3):
        x = make_mini_batch(layer, 5.0, seed=seed)
        with torch.no_grad():
            torch.testing.assert_close(layer(x), reference(x), rtol=0, atol=1e-10)
        assert layer.chosen.row == 1
        layer.keep(layer.chosen, torch.tensor(True))


def test_population_normalizes_single_examples_small_mini_batches_and_values_that_are_not_finite():
    layer = make_layer(smallest=8)
    far = make_mini_batch(layer, 100.0)
    bad = far.clone()
    bad[0] = torch.nan
    for x in (far[:1], far[:7], bad, far[:1].half()):
        with torch.no_grad():
            output, expected = layer(x), layer.layer(x)
        assert layer.chosen.row == 0
        assert torch.equal(output.nan_to_num(), expected.nan_to_num())
        assert output.dtype == expected.dtype
    with torch.no_grad():
        layer(far)
    assert layer.chosen.row != 0
