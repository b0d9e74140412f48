"""BN with the unbiased variance of the mini-batch equals its formula; the population value does not change."""

from __future__ import annotations

import json

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import bln_search
from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import Correction
from bln_search.core.errors import SpecError
from bln_search.core.method import Method
from bln_search.norms import BN
from bln_search.norms.moment_collection import use_new_moment_accumulators
from bln_search.specs import parse_study
from tests.evaluation.builders import build_network, estimate_populations, row_specs
from tests.evaluation.networks import NETWORKS
from tests.evaluation.plain_passes import assert_equal_to_plain_passes
from tests.support.tiers import thinned

EPSILON = 1e-4
SHAPES = {"(N, D)": (5, 3), "(N, C, H, W)": (4, 3, 2, 3)}
CODES = [str(configuration) for configuration in all_configurations(Method.BN)]


def random_input(shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 + 0.5


def loop(x, code, population, divide_by_all=False):
    """(x − E)/√(Σ(x − μ)²/(n − 1) + ε) by loops over channels; sources as in the code."""
    rows = np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])
    out = np.empty_like(rows)
    for channel in range(rows.shape[1]):
        values = list(rows[:, channel])
        mean = sum(values) / len(values)
        squares = sum((value - mean) ** 2 for value in values)
        variance = squares / (len(values) if divide_by_all else max(len(values) - 1, 1)) + EPSILON
        used_mean = population[0][channel] if code[0] == "T" else mean
        deviation = population[1][channel] if code[1] == "T" else np.sqrt(variance)
        out[:, channel] = [(value - used_mean) / deviation for value in values]
    moved = np.moveaxis(x, 1, -1).shape
    return np.moveaxis(out.reshape(moved), -1, 1)


def population_of(layer, shape):
    with use_new_moment_accumulators([layer]) as accumulators, torch.no_grad():
        for seed in range(10, 14):
            layer(random_input(shape, seed))
    moments = accumulators[layer].averaged_moments(has_batch_statistics=True, has_feature_statistics=False)
    return layer.compute_population(moments, Correction.BESSEL)


@pytest.mark.parametrize("name", SHAPES)
def test_training_divides_by_one_less(name):
    x = random_input(SHAPES[name])
    expected = loop(x.numpy(), "FF--", None)
    np.testing.assert_allclose(BN(3, unbiased=True).double()(x).detach().numpy(), expected, rtol=1e-12, atol=1e-12)
    biased = loop(x.numpy(), "FF--", None, divide_by_all=True)
    np.testing.assert_allclose(BN(3).double()(x).detach().numpy(), biased, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("name", SHAPES)
def test_every_configuration_equals_a_loop(name, code):
    shape = SHAPES[name]
    layer = BN(3, unbiased=True).double()
    population = population_of(layer, shape)
    layer.eval().configure(InferenceConfiguration(code), population)
    x = random_input(shape, seed=99)
    pair = [value.flatten().numpy() for value in (population.batch.mean, population.batch.deviation)]
    np.testing.assert_allclose(layer(x).detach().numpy(), loop(x.numpy(), code, pair), rtol=1e-12, atol=1e-12)


def test_the_population_is_corrected_once():
    values = [population_of(BN(3, unbiased=unbiased).double(), (5, 3)).batch.deviation for unbiased in (False, True)]
    assert torch.equal(*values)


def test_gradients_equal_finite_differences():
    layer = BN(3, unbiased=True).double()

    def call_layer(x, weight, bias):
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (x,))

    x = random_input((4, 3, 2, 2)).requires_grad_()
    assert torch.autograd.gradcheck(call_layer, (x, layer.weight, layer.bias))


def test_the_variance_of_one_value_is_zero():
    x = random_input((1, 3))
    assert torch.equal(BN(3, unbiased=True).double()(x), torch.zeros_like(x))


@pytest.mark.parametrize("name", thinned(NETWORKS, 3))
def test_the_one_pass_equals_plain_passes(name):
    network = build_network(name, "bn", unbiased=True)
    assert_equal_to_plain_passes(network, name, estimate_populations(network, name), row_specs(network))


@pytest.mark.parametrize("method", ["ln", "bln", "mbn", "brn", "none"])
def test_other_methods_have_no_such_option(method):
    arm = f"{{method: {method}, unbiased: true}}"
    with pytest.raises(SpecError, match=f"unbiased belongs to bn, the arm is {method}"):
        parse_study(f"name: s\ndata: {{name: digits}}\nmodel: {{name: mlp}}\narms: [{arm}]\nseeds: [0]\n")


@pytest.mark.filterwarnings("ignore::bln_search.BatchDependenceWarning")
@pytest.mark.parametrize("code", ["FF--", pytest.param("TF--", marks=pytest.mark.slow)])
def test_an_export_has_its_outputs_at_every_size(code, tmp_path):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 3), bln_search.BN(3, unbiased=True), nn.Tanh(), nn.Linear(3, 2))
    loader = [(torch.randn(5, 4), torch.arange(5) % 2) for _ in range(3)]
    rows = {str(row.configuration): row for row in bln_search.evaluate_configurations(network, loader, loader)}
    bln_search.export(network, tmp_path / "out", example_inputs=loader[0][0], configuration=rows[code])
    applied = bln_search.apply_configuration(network, rows[code]).eval()
    program = bln_search.load(tmp_path / "out")
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx", providers=["CPUExecutionProvider"])
    for size in (1, 2, 7):
        x = torch.randn(size, 4)
        expected = applied(x).detach()
        torch.testing.assert_close(program(x), expected, rtol=0, atol=1e-5)
        (output,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        torch.testing.assert_close(torch.from_numpy(output), expected, rtol=0, atol=1e-5)
    description = json.loads((tmp_path / "out" / "configuration.json").read_text())
    assert description["layers"]["1"]["unbiased"] is True
    assert description["format"] == 5
