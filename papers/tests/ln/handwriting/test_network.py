"""Handwriting against a plain loop over points and mixtures in double precision, absent points, samples and errors."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch

from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.data.input_shape import InputField
from bln_search.data.inputs import make_structured_inputs
from bln_search.evaluation import collect_moments_with_frozen_weights, evaluate_rows_per_example
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search.norms.network.layers import (
    compute_populations_of_layers,
    get_norms_by_name,
    moments_by_estimate_from_training_history,
)
from bln_search.tasks.losses import score_density_outputs
from ln.handwriting.networks import SHAPE, SIZE, SIZES, STEPS, TEXT, make_inputs, make_network
from tests.evaluation.builders import row_specs
from tests.models.recurrent.oracle import sigmoid
from tests.support.tiers import thinned

METHODS = [(method, "paper") for method in ("bn", "ln", "bln", "mbn", "brn")] + [("bn", "reference")]


def affine(layer, x):
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    return [sum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in zip(weight, bias, strict=True)]


def layer_norm(norms, step, values):
    layer = norms.of_step[step]
    if not hasattr(layer, "weight") or layer.weight is None:
        return values
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    offsets = [0.0] * len(values) if layer.bias is None else layer.bias.tolist()
    return [
        gain * (value - mean) / math.sqrt(variance + layer.eps) + offset
        for value, gain, offset in zip(values, layer.weight.tolist(), offsets, strict=True)
    ]


def lstm_step(layer, x, hidden, cell, step):
    """Eq. 20-22 of the LN paper; gates in the order o, f, i, g."""
    units = len(hidden)
    weight_x, weight_h = layer.weight_input.detach().numpy(), layer.weight_hidden.detach().numpy()
    bias = [0.0] * (4 * units) if layer.bias is None else layer.bias.tolist()
    parts = [
        layer_norm(norms, step, [sum(w * v for w, v in zip(row, values, strict=True)) for row in weight])
        for norms, weight, values in ((layer.norm_input, weight_x, x), (layer.norm_hidden, weight_h, hidden))
    ]
    summed = [a + b + c for a, b, c in zip(*parts, bias, strict=True)]
    output, forget, entry, candidate = (summed[gate * units : (gate + 1) * units] for gate in range(4))
    cell = [sigmoid(forget[k]) * cell[k] + sigmoid(entry[k]) * math.tanh(candidate[k]) for k in range(units)]
    normalized = layer_norm(layer.norm_cell, step, cell)
    return [sigmoid(output[k]) * math.tanh(normalized[k]) for k in range(units)], cell


def read_window(window, hidden, places, text):
    """Eq. 46-51 of Graves 2013."""
    k = len(places)
    outputs = affine(window.parameters_of_gaussians, hidden)
    places = [places[i] + math.exp(outputs[2 * k + i]) * TEXT / STEPS for i in range(k)]
    read = [0.0] * 10
    for u, character in enumerate(text, start=1):
        for i in range(k):
            read[character] += math.exp(outputs[i]) * math.exp(-math.exp(outputs[k + i]) * (places[i] - u) ** 2)
    return read, places


def point_loss(outputs, point):
    """Eq. 15-26 of Graves 2013; deviations at least e⁻⁵ and correlations at most 0.999."""
    m = (len(outputs) - 1) // 6
    weights = [math.exp(value) for value in outputs[:m]]
    density = 0.0
    for j in range(m):
        mean_x, mean_y = outputs[m + 2 * j], outputs[m + 2 * j + 1]
        deviation_x, deviation_y = (math.exp(max(outputs[3 * m + 2 * j + axis], -5)) for axis in (0, 1))
        rho = 0.999 * math.tanh(outputs[5 * m + j])
        a, b = (point[0] - mean_x) / deviation_x, (point[1] - mean_y) / deviation_y
        z = a * a + b * b - 2 * rho * a * b
        normalizer = 2 * math.pi * deviation_x * deviation_y * math.sqrt(1 - rho * rho)
        density += weights[j] / sum(weights) * math.exp(-z / (2 * (1 - rho * rho))) / normalizer
    end = sigmoid(outputs[-1])
    return -math.log(density) - math.log(end if point[2] else 1 - end)


def track_loss(network, points, length, text):
    """The loss of one track, from its present points only."""
    layers = [network.first, *network.further]
    states = [([0.0] * layer.units, [0.0] * layer.units) for layer in layers]
    read, places, before, total = [0.0] * 10, [0.0, 0.0], [0.0, 0.0, 1.0], 0.0
    for step in range(length):
        states[0] = lstm_step(layers[0], [*before, *read], *states[0], step)
        read, places = read_window(network.window, states[0][0], places, text)
        for index in range(1, len(layers)):
            inputs = [*before, *read, *states[index - 1][0]]
            states[index] = lstm_step(layers[index], inputs, *states[index], step)
        outputs = affine(network.density, [value for hidden, _ in states for value in hidden])
        total += point_loss(outputs, points[step])
        before = points[step]
    return total


@pytest.mark.parametrize("method", ["none", "ln"])
def test_losses_equal_a_loop_over_points_and_mixtures(method):
    network, inputs = make_network(method), make_inputs()
    expected = [
        track_loss(network, points.tolist(), int(present.sum()), text.tolist())
        for points, present, text in zip(*(inputs[name] for name in SHAPE), strict=True)
    ]
    np.testing.assert_allclose(network(inputs)[:, 0].detach().numpy(), expected, rtol=1e-10)


def test_gradients_are_those_of_the_loss():
    network, inputs = make_network("ln"), make_inputs(2)
    names = (
        *("first.bias", "first.norm_hidden.of_step.0.weight", "window.parameters_of_gaussians.weight"),
        *("further.0.norm_cell.of_step.0.weight", "further.1.weight_hidden", "density.bias"),
    )
    parameters = dict(network.named_parameters())
    assert torch.autograd.gradcheck(
        lambda *values: torch.func.functional_call(network, dict(zip(names, values, strict=True)), (inputs,)),
        tuple(parameters[name] for name in names),
        fast_mode=True,
    )


@pytest.mark.parametrize("method", ["none", "ln", "bn", "bln"])
@pytest.mark.parametrize("is_training", [True, False])
def test_absent_points_change_no_loss_and_no_statistic(method, is_training):
    network, inputs = make_network(method).train(is_training), make_inputs()
    present, points = inputs["present"], inputs["points"]
    others = torch.where(present.unsqueeze(2), points, torch.full_like(points, 0.7))
    changed = make_structured_inputs({"points": others, "present": present, "text": inputs["text"]}, SIZE)
    torch.testing.assert_close(network(inputs), network(changed), rtol=1e-12, atol=0)


@pytest.mark.parametrize(("method", "semantics"), thinned(METHODS, 6, start=2))
def test_one_pass_equals_plain_passes_under_every_configuration(method, semantics):
    network = make_network(method, semantics=semantics)
    batches = [make_inputs(SIZE, seed) for seed in range(1, 6)]
    network.train()
    with torch.no_grad():
        for batch in batches:
            network(batch)
    network.eval()
    moments = {
        PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(network, batches),
        **moments_by_estimate_from_training_history(get_norms_by_name(network)),
    }
    populations = compute_populations_of_layers(get_norms_by_name(network), moments, Correction.BESSEL, per_slot=False)
    inputs = make_inputs(2 * SIZE + 1, seed=7)
    batches = list(iter_mini_batches_with_fillers(inputs, torch.zeros(len(inputs), 0, dtype=torch.int64), SIZE))
    rows = row_specs(network, (PopulationEstimate.FROZEN,))
    fused, plain = (
        evaluate_rows_per_example(network, batches, rows, populations, score=score_density_outputs, one_pass=one_pass)
        for one_pass in (True, False)
    )
    assert len(rows) == {"bln": 16, "mbn": 9}.get(method, 4)
    for row, fused_outcomes, plain_outcomes in zip(rows, fused, plain, strict=True):
        assert len(fused_outcomes.losses) == len(inputs)
        np.testing.assert_allclose(fused_outcomes.losses, plain_outcomes.losses, rtol=1e-10, err_msg=str(row))
    assert len({outcomes.losses.mean() for outcomes in plain}) == len(rows), "each configuration has its own loss"


def test_norms_are_inside_all_cells():
    network = make_network("bn").train()
    network(make_inputs()).sum().backward()
    gains = {name: p.grad for name, p in network.named_parameters() if "norm" in name and name.endswith("weight")}
    kinds = {name.split(".of_step")[0] for name in gains}
    layers = ("first", "further.0", "further.1")
    assert kinds == {f"{layer}.norm_{kind}" for layer in layers for kind in ("input", "hidden", "cell")}
    assert all(gradient.abs().sum() > 0 for gradient in gains.values())


def test_the_printed_network_has_about_3_7_million_weights():
    shape = SHAPE | {"points": InputField((5, 3), torch.float32)}
    network = build_model("handwriting", shape, 0, partial(make_norm, "none"), seed=0)
    window_of_57_characters = 47 * 3 * 4 * 400  # the printed window is wider by 47 characters, in each of three layers
    weights = sum(parameter.numel() for parameter in network.parameters()) + window_of_57_characters
    assert weights == pytest.approx(3.7e6, rel=0.02)


def test_samples_are_tracks_that_the_seed_determines():
    network, text = make_network("ln"), torch.tensor([[1, 2, 3], [4, 5, 6]])
    (points, inside), (again, _) = (network.sample(text, torch.Generator().manual_seed(2)) for _ in range(2))
    assert points.shape == (2, STEPS, 3)
    assert torch.equal(points, again)
    assert set(points[:, :, 2].flatten().tolist()) <= {0, 1}
    assert (inside[:, 1:] <= inside[:, :-1]).all(), "a window that has left the text does not come back"
    assert not torch.equal(points[0], points[1])


def test_samples_follow_the_densities_that_the_loss_uses():
    network, text = make_network("ln"), torch.tensor([[1, 2, 3]])
    points, _ = network.sample(text.expand(2_000, -1), torch.Generator().manual_seed(0))
    first = points[:, 0]
    inputs = make_structured_inputs(
        {"points": points[:1], "present": torch.ones(1, STEPS, dtype=torch.bool), "text": text}, 1
    )
    density = network._predict(inputs["points"], inputs["present"], text)
    weights = torch.softmax(density.logits[0, 0], 0)
    mean = (weights.unsqueeze(1) * density.means[0, 0]).sum(0)
    torch.testing.assert_close(first[:, :2].mean(0), mean, rtol=0.1, atol=0.1)
    torch.testing.assert_close(first[:, 2].mean(), torch.sigmoid(density.end_logits[0, 0]), rtol=0, atol=0.04)


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((7, 3), {}, "several inputs"),
        ({"points": SHAPE["points"]}, {}, "choose the data mnist_pen_tracks"),
        (SHAPE, {"widths": [3, 0]}, "at least one unit"),
    ],
)
def test_wrong_arguments_are_an_error(shape, options, message):
    with pytest.raises(ModelError, match=message):
        build_model("handwriting", shape, 0, partial(make_norm, "ln"), seed=0, options={**SIZES, **options})
