"""The readings of MBN's inference: M, L and C, against NumPy loops over Eq. 5-8 in float64."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import Correction, MbnStatisticSource
from bln_search.core.errors import ModelError
from bln_search.core.method import Method
from bln_search.norms import MBN
from bln_search.norms.moment_collection import flatten_moments_to_tensors, restore_moments_from_tensors
from bln_search.norms.network.folding import find_folding_obstacle
from bln_search.norms.network.layers import (
    compute_populations_of_layers,
    list_possible_configurations,
    moments_by_estimate_from_training_history,
)
from bln_search.norms.row_batching.row_tensor import (
    BatchLayout,
    InferenceRow,
    RowBatchingPlan,
    remove_row_tag,
    tag_with_rows,
)
from bln_search.norms.statistics import select_layer_population

DECAY, LAMBDA = 0.9, 0.3
STORED = [code for code in map("".join, product("MLCF", repeat=2)) if code != "FF"]


def trained_layer(lambda_=LAMBDA, sizes=(6, 4, 5, 6), decay=DECAY, **options):
    """A layer after steps of several mini-batch sizes, and the statistics of its mini-batches, newest first."""
    generator = torch.Generator().manual_seed(3)
    layer = MBN(
        3, memory_size=3, memory_decay=decay, lambda_=lambda_, memory_sources=list(MbnStatisticSource), **options
    ).double()
    entries = []
    for step, size in enumerate(sizes):
        x = torch.randn(size, 3, 2, 2, generator=generator, dtype=torch.float64) * (1 + step) + step
        layer(x)
        values = np.moveaxis(x.numpy(), 1, -1).reshape(-1, 3)
        entries.insert(0, values)
    return layer.eval(), entries[:3]


def pooled(weighted, *, between=True):
    """Mean and variance of (weight, values) pairs by Eq. 6, one value at a time; by Eq. 4 without `between`."""
    total = sum(weight * len(values) for weight, values in weighted)
    mean = sum(weight * row for weight, values in weighted for row in values) / total
    variance = 0
    for weight, values in weighted:
        mu = values.mean(0)
        variance = variance + weight * len(values) * (between * (mu - mean) ** 2 + ((values - mu) ** 2).mean(0))
    return mean, variance / total


def expected_statistics(letter, entries, x, lambda_=LAMBDA, decay=DECAY, *, between=True):
    values = np.moveaxis(x.numpy(), 1, -1).reshape(-1, 3)
    memory = [(decay**age, entry) for age, entry in enumerate(entries)]
    last_step = [(1.0 if age == 0 else lambda_ * decay ** (age - 1), entry) for age, entry in enumerate(entries)]
    with_batch = [(1.0, values), *((lambda_ * weight, entry) for weight, entry in memory)]
    return pooled({"M": memory, "L": last_step, "C": with_batch, "F": [(1.0, values)]}[letter], between=between)


def configured(layer, code):
    populations = compute_populations_of_layers(
        {"": layer}, moments_by_estimate_from_training_history({"": layer}), Correction.BESSEL, per_slot=False
    )
    configuration = InferenceConfiguration(f"{code}--")
    layer.configure(configuration, select_layer_population(configuration, None, populations[layer]))
    return layer


@pytest.mark.parametrize("is_configured", [True, False])
@pytest.mark.parametrize("code", STORED)
def test_each_source_equals_its_formula(code, is_configured):
    layer, entries = trained_layer()
    if is_configured:
        configured(layer, code)
    else:
        layer.configure(InferenceConfiguration(f"{code}--"))
    x = torch.randn(5, 3, 2, 2, dtype=torch.float64) * 2 - 1
    mean, variance = expected_statistics(code[0], entries, x)[0], expected_statistics(code[1], entries, x)[1]
    shape = (1, 3, 1, 1)
    expected = (x.numpy() - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + 1e-4)
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("code", ["MM", "LL", "CC", "training"])
def test_without_between_variance_the_variance_is_the_mean_of_variances(code):
    layer, entries = trained_layer(between_variance=False)
    x = torch.randn(5, 3, 2, 2, dtype=torch.float64) * 2 - 1
    letter = "C" if code == "training" else code[0]
    mean, variance = expected_statistics(letter, entries, x, between=False)
    with_term = expected_statistics(letter, entries, x)[1]
    assert (with_term > 1.005 * variance).all()
    output = layer.train()(x) if code == "training" else configured(layer, code)(x)
    shape = (1, 3, 1, 1)
    expected = (x.numpy() - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + 1e-4)
    np.testing.assert_allclose(output.detach().numpy(), expected, rtol=1e-11, atol=1e-11)


def test_last_step_equals_memory_where_lambda_equals_the_decay():
    layer, _ = trained_layer(lambda_=0.9)
    x = torch.randn(5, 3, 2, 2, dtype=torch.float64)
    memory, last_step = configured(layer, "MM")(x), configured(layer, "LL")(x)
    torch.testing.assert_close(last_step, memory, rtol=1e-13, atol=1e-13)
    other, _ = trained_layer(lambda_=0.1)
    assert not torch.allclose(configured(other, "LL")(x), configured(other, "MM")(x), rtol=1e-3)


def test_combined_source_is_the_rule_of_training():
    layer, _ = trained_layer()
    x = torch.randn(5, 3, 2, 2, dtype=torch.float64)
    inference = configured(layer, "CC")(x)
    torch.testing.assert_close(layer.train()(x), inference, rtol=1e-12, atol=1e-12)


def test_combined_source_without_weight_of_the_memory_is_the_mini_batch():
    layer, _ = trained_layer(lambda_=0.0)
    x = torch.randn(5, 3, 2, 2, dtype=torch.float64)
    torch.testing.assert_close(configured(layer, "CC")(x), configured(layer, "FF")(x), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("kind", ["dense", "image"])
def test_one_pass_equals_plain_passes(depth, kind):
    torch.manual_seed(5)
    make = (lambda: nn.Linear(4, 4)) if kind == "dense" else (lambda: nn.Conv2d(4, 4, 3, padding=1))
    blocks = [
        module
        for _ in range(depth)
        for module in (
            make(),
            MBN(4, memory_size=3, lambda_=LAMBDA, memory_sources=list(MbnStatisticSource)),
            nn.ReLU(),
        )
    ]
    network = nn.Sequential(*blocks, make(), nn.Flatten()).double()
    shape = (6, 4) if kind == "dense" else (6, 4, 3, 3)
    for _ in range(4):
        network(torch.randn(shape, dtype=torch.float64))
    network.eval()
    layers = {name: module for name, module in network.named_modules() if isinstance(module, MBN)}
    populations = compute_populations_of_layers(
        layers, moments_by_estimate_from_training_history(layers), Correction.BESSEL, per_slot=False
    )
    rows = [InferenceRow(code, None) for code in list_possible_configurations(layers) if not code.uses_population]
    assert len(rows) == 16
    x = torch.randn(shape, dtype=torch.float64)
    layout = BatchLayout(RowBatchingPlan(tuple(rows), populations), 1, len(x))
    with torch.no_grad():
        outputs = remove_row_tag(network(tag_with_rows(x, layout, 1))).view(len(rows), len(x), -1)
        for row, output in zip(rows, outputs, strict=True):
            for layer in layers.values():
                layer.configure(row.configuration, select_layer_population(row.configuration, None, populations[layer]))
            torch.testing.assert_close(output, network(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("code", ["CC", "FC", "LM", "ML"])
def test_state_dict_restores_the_sources(code):
    layer = configured(trained_layer()[0], code)
    copy = MBN(3).double()
    copy.load_state_dict(layer.state_dict())
    copy.memory = None
    x = torch.randn(5, 3, 2, 2, dtype=torch.float64)
    assert torch.equal(copy.eval()(x), layer(x))


def test_moments_keep_the_weight_of_the_memory_as_tensors():
    moments = trained_layer()[0].moments_by_estimate_from_history()["memory"]
    restored = restore_moments_from_tensors(flatten_moments_to_tensors({"a": moments}))["a"]
    assert restored.prior_values == moments.prior_values > 0


def test_combined_source_is_not_folded_and_last_step_is():
    layer, _ = trained_layer()
    assert "from the mini-batch" in find_folding_obstacle(configured(layer, "LC"))
    assert find_folding_obstacle(configured(layer, "LL")) is None
    assert not InferenceConfiguration("LC--").is_deterministic
    assert InferenceConfiguration("LL--").is_deterministic


def test_readings_are_enumerated_where_asked_for():
    assert len(all_configurations(Method.MBN)) == 9
    assert len(all_configurations(Method.MBN, list(MbnStatisticSource))) == 25
    assert len(list_possible_configurations({"a": MBN(3)})) == 9
    assert all_configurations(Method.BN, list(MbnStatisticSource)) == all_configurations(Method.BN)


def test_combined_source_without_a_memory_is_an_error():
    layer = MBN(3).eval()
    layer.configure(InferenceConfiguration("CC--"))
    with pytest.raises(ModelError, match="memory"):
        layer(torch.randn(2, 3))
