"""Half precision: statistics are computed in single precision and rounded once, as in torch's layers."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from bln_search import convert, evaluate_configurations
from bln_search.norms import make_norm

HALF = [torch.float16, torch.bfloat16]


def large_inputs(dtype):
    """Return inputs with one feature whose squares overflow in half precision."""
    x = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    x[:, 0] *= 1000
    return x.to(dtype)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("norm", [nn.LayerNorm(8), nn.BatchNorm1d(8)])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_converted_layer_equals_torchs_layer(norm, dtype, mode):
    torch_norm = copy.deepcopy(norm).to(dtype)
    torch_norm(large_inputs(dtype))
    network = nn.Sequential(torch_norm)
    converted = convert(copy.deepcopy(network), method="same")
    getattr(network, mode)(), getattr(converted, mode)()
    expected = network(large_inputs(dtype))
    outputs = converted(large_inputs(dtype))
    assert outputs.dtype == expected.dtype == dtype
    torch.testing.assert_close(outputs.float(), expected.float(), rtol=4 * torch.finfo(dtype).eps, atol=1e-2)


KEPT_IN_SINGLE_PRECISION = [
    nn.BatchNorm1d(8),
    nn.BatchNorm1d(8, track_running_stats=False),
    nn.LayerNorm(8),
    nn.GroupNorm(1, 8),
]


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("norm", KEPT_IN_SINGLE_PRECISION, ids=str)
def test_a_layer_kept_in_single_precision_returns_the_dtype_of_its_input(norm, dtype):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 8), copy.deepcopy(norm), nn.Linear(8, 3)).to(dtype)
    network[1].float()
    x = torch.randn(20, 6).to(dtype)
    loader = [(x, torch.randint(3, (20,)))]
    for training in (True, False):
        expected = copy.deepcopy(network).train(training)(x)
        outputs = convert(copy.deepcopy(network), method="same").train(training)(x)
        assert outputs.dtype == expected.dtype == dtype
        torch.testing.assert_close(outputs, expected, rtol=4 * torch.finfo(dtype).eps, atol=1e-2)
    converted = convert(network.eval(), method="same")
    loss = nn.functional.cross_entropy(converted(x).float(), loader[0][1]).item()
    as_is = evaluate_configurations(converted, loader, loader).as_is
    assert as_is.row.metrics["validation"].loss.mean == pytest.approx(loss, rel=0.05)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("method", ["bln", "bn", "ln", "none"])
def test_layers_in_single_precision_return_half_precision(method, dtype):
    layer = make_norm(method, 8, batch_size=6)
    assert layer(large_inputs(dtype)).dtype == dtype
    assert layer.to("meta")(large_inputs(dtype).to("meta")).dtype == dtype


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("method", ["bln", "bn", "ln"])
def test_half_precision_is_single_precision_rounded_once(method, dtype):
    layer = make_norm(method, 8, batch_size=6)
    x = large_inputs(dtype)
    torch.testing.assert_close(copy.deepcopy(layer).to(dtype)(x), layer(x.float()).to(dtype))


def test_under_autocast_a_layer_equals_torchs_layer():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
    network[0].weight.data.mul_(900)
    converted = convert(copy.deepcopy(network), method="same")
    x = torch.randn(32, 4)
    with torch.autocast("cpu", dtype=torch.float16):
        expected, outputs = network(x), converted(x)
    torch.testing.assert_close(outputs.float(), expected.float(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("shape", [(8,), (3, 8)])
def test_the_one_pass_equals_plain_passes_in_half_precision(dtype, shape):
    torch.manual_seed(0)
    layers = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.LayerNorm(8), nn.Flatten(), nn.LazyLinear(3)
    network = nn.Sequential(*layers)
    network(torch.randn(2, *shape))
    network[0].bias.data[0] += 3000
    network = convert(network, method="same").to(dtype)
    loader = [(torch.randn(10, *shape).to(dtype), torch.randint(3, (10,))) for _ in range(3)]
    fused, plain = (evaluate_configurations(network, loader, loader, one_pass=one_pass) for one_pass in (True, False))
    assert fused.outcomes.keys() == plain.outcomes.keys()
    for key, outcomes in fused.outcomes.items():
        assert outcomes.losses.mean() == pytest.approx(plain.outcomes[key].losses.mean(), rel=0.05)
