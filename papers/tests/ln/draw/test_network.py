"""DRAW against a plain loop over examples in double precision, its noise and its errors."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch

from bln_search.core.errors import ModelError
from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search_papers.ln.draw.latent_noise import LatentNoise
from tests.models.recurrent.oracle import sigmoid

SHAPE, SIZES = (1, 6, 5), {"widths": [4, 3], "glimpses": 3, "latent": 2}


def make_draw(method="ln", **options):
    """A network in double precision and evaluation mode whose every parameter is random."""
    norm = partial(make_norm, method, batch_size=4) if method != "none" else partial(make_norm, "none")
    network = build_model("draw", SHAPE, 0, norm, seed=0, options={**SIZES, **options}).double().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64), alpha=0.3)
    return network


def make_images(n, seed=0):
    return (torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(seed)) < 0.4).double()


def affine(layer, x):
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    return [sum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in zip(weight, bias, strict=True)]


def filters(mean, variance, length):
    weights = [math.exp(-((position - mean) ** 2) / (2 * variance)) for position in range(length)]
    return [weight / sum(weights) for weight in weights]


def grid(layer, decoded, size):
    """Return the filters of the rows and of the columns, and the intensity."""
    height, width = SHAPE[1:]
    x, y, log_variance, log_stride, log_intensity = affine(layer, decoded)
    stride = (max(height, width) - 1) / (size - 1) * math.exp(log_stride)
    centre_x, centre_y = (width + 1) / 2 * (x + 1), (height + 1) / 2 * (y + 1)  # positions counted from 1
    rows, columns = [], []
    for i in range(1, size + 1):
        offset = (i - size / 2 - 0.5) * stride
        rows.append(filters(centre_y + offset - 1, math.exp(log_variance), height))
        columns.append(filters(centre_x + offset - 1, math.exp(log_variance), width))
    return rows, columns, math.exp(log_intensity)


def read(network, image, error, decoded):
    if not hasattr(network.read, "grid"):
        return [*image.ravel(), *error.ravel()]
    rows, columns, intensity = grid(network.read.grid, decoded, 2)
    patch = []
    for picture in (image, error):
        for row in rows:
            for column in columns:
                total = sum(row[a] * column[b] * picture[a, b] for a in range(len(row)) for b in range(len(column)))
                patch.append(intensity * total)
    return patch


def write(network, decoded):
    height, width = SHAPE[1:]
    if not hasattr(network.write, "grid"):
        return np.array(affine(network.write.linear, decoded)).reshape(height, width)
    rows, columns, intensity = grid(network.write.grid, decoded, 5)
    patch = affine(network.write.patch, decoded)
    written = np.zeros((height, width))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            for a in range(height):
                for b in range(width):
                    written[a, b] += row[a] * column[b] * patch[5 * i + j] / intensity
    return written


def layer_norm(norms, step, values):
    layer = norms.of_step[step]
    if not hasattr(layer, "weight") or layer.weight is None:
        return values
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    return [
        gain * (value - mean) / math.sqrt(variance + layer.eps) + offset
        for value, gain, offset in zip(values, layer.weight.tolist(), layer.bias.tolist(), strict=True)
    ]


def lstm_step(layer, x, hidden, cell, step):
    """Eq. 29-31 of the LN paper; gates in the order o, f, i, g."""
    units = len(hidden)
    weight_x, weight_h = layer.weight_input.detach().numpy(), layer.weight_hidden.detach().numpy()
    bias = layer.bias.detach().numpy()
    summed = [
        sum(w * v for w, v in zip(weight_x[k], x, strict=True))
        + sum(w * v for w, v in zip(weight_h[k], hidden, strict=True))
        + bias[k]
        for k in range(4 * units)
    ]
    output, forget, entry, candidate = (summed[gate * units : (gate + 1) * units] for gate in range(4))
    cell = [sigmoid(forget[k]) * cell[k] + sigmoid(entry[k]) * math.tanh(candidate[k]) for k in range(units)]
    normalized = layer_norm(layer.norm_cell, step, cell)
    return [sigmoid(output[k]) * math.tanh(normalized[k]) for k in range(units)], cell


def bound(network, image):
    """Return the bound of one image (H, W), in nats."""
    row = network.noise.compute_noise_table_rows(torch.from_numpy(image)[None, None])
    encoded, encoder_cell = [0.0] * 4, [0.0] * 4
    decoded, decoder_cell = [0.0] * 3, [0.0] * 3
    canvas, divergence = np.zeros_like(image), 0.0
    for step in range(3):
        error = image - np.vectorize(sigmoid)(canvas)
        inputs = [*read(network, image, error, decoded), *decoded]
        encoded, encoder_cell = lstm_step(network.encoder, inputs, encoded, encoder_cell, step)
        means, logs = affine(network.latent_mean, encoded), affine(network.latent_log_deviation, encoded)
        noise = network.noise(row, step)[0].tolist()
        latent = [m + math.exp(s) * e for m, s, e in zip(means, logs, noise, strict=True)]
        divergence += sum(0.5 * (m**2 + math.exp(2 * s) - 2 * s - 1) for m, s in zip(means, logs, strict=True))
        decoded, decoder_cell = lstm_step(network.decoder, latent, decoded, decoder_cell, step)
        canvas = canvas + write(network, decoded)
    pixels = zip(image.ravel(), canvas.ravel(), strict=True)
    return divergence - sum(math.log(sigmoid(c)) if x else math.log(1 - sigmoid(c)) for x, c in pixels)


@pytest.mark.parametrize("method", ["none", "ln"])
@pytest.mark.parametrize("attention", [True, False])
def test_the_bound_equals_a_loop_over_steps_and_pixels(method, attention):
    network, images = make_draw(method, attention=attention), make_images(3)
    expected = [bound(network, image[0].numpy()) for image in images]
    np.testing.assert_allclose(network(images)[:, 0].detach().numpy(), expected, rtol=1e-10)


def test_gradients_are_those_of_the_bound():
    network, images = make_draw("ln"), make_images(2)
    names = ("read.grid.weight", "write.grid.bias", "latent_log_deviation.weight", "encoder.norm_cell.of_step.0.weight")
    parameters = dict(network.named_parameters())
    assert torch.autograd.gradcheck(
        lambda *values: torch.func.functional_call(network, dict(zip(names, values, strict=True)), (images,)),
        tuple(parameters[name] for name in names),
    )


def test_a_bound_does_not_depend_on_the_other_images():
    network, images = make_draw("ln"), make_images(5)
    order = torch.tensor([3, 0, 4])
    torch.testing.assert_close(network(images)[order], network(images[order]), rtol=1e-12, atol=0)


def test_norms_of_all_cells_are_used_with_normalize_cells():
    network = make_draw("bn", normalize="cells")
    network.train()
    network(make_images(4)).sum().backward()
    gains = {name: p.grad for name, p in network.named_parameters() if "norm" in name and name.endswith("weight")}
    assert {name.split(".")[1] for name in gains} == {"norm_hidden", "norm_input", "norm_cell"}
    assert all(gradient.abs().sum() > 0 for gradient in gains.values())


def test_images_drawn_from_the_prior_are_probabilities_that_the_seed_determines():
    network = make_draw("ln")
    first, again = (network.sample_pixel_probabilities(4, torch.Generator().manual_seed(2)) for _ in range(2))
    assert first.shape == (4, *SHAPE)
    assert torch.equal(first, again)
    assert ((first >= 0) & (first <= 1)).all()
    assert not torch.equal(first[0], first[1])


def test_noise_in_evaluation_is_standard_normal_and_differs_between_images_and_steps():
    noise = LatentNoise(pixels=784, steps=5, units=20).eval()
    images = (torch.rand(2_000, 784, generator=torch.Generator().manual_seed(0)) < 0.2).float()
    rows = noise.compute_noise_table_rows(images)
    drawn = torch.stack([noise(rows, step) for step in range(5)], 1)
    assert len(rows.unique()) > 0.75 * len(rows)  # 2,000 of 4,099 rows: 1,583 expected
    assert abs(drawn.mean().item()) < 0.02
    assert drawn.std().item() == pytest.approx(1, abs=0.02)
    assert len({tuple(step.tolist()) for step in drawn[0]}) == 5
    assert torch.equal(rows, noise.compute_noise_table_rows(images.double()))


def test_noise_in_training_is_drawn_anew():
    noise = LatentNoise(pixels=4, steps=1, units=3).train()
    rows = torch.zeros(2, dtype=torch.int64)
    assert not torch.equal(noise(rows, 0), noise(rows, 0))


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((8,), {}, "takes images"),
        ((1, 4, 4), {"widths": [3]}, "two widths"),
        ((1, 4, 4), {"normalize": "layers"}, "cells or cell_output"),
    ],
)
def test_wrong_arguments_are_an_error(shape, options, message):
    with pytest.raises(ModelError, match=message):
        build_model("draw", shape, 0, partial(make_norm, "ln"), seed=0, options={**SIZES, **options})
