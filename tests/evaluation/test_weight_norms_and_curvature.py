"""The geometry of each layer equals its definition, and finds the normalization layer that reads its output."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bln_search.core.records import LayerWeightNormAndCurvature
from bln_search.evaluation.fisher import compute_directional_fisher_curvature
from bln_search.evaluation.weight_norms_and_curvature import measure_weight_norms_and_curvature
from bln_search.norms import BLN, BN, LN, MBN
from bln_search.norms.no_normalization import NoNormalization

RATE = 0.1


def network_of(norm: type[nn.Module]) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, bias=False),
        norm(3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(48, 6),
        nn.Tanh(),
        norm(6),
        nn.Linear(6, 4),
    ).double()


def images() -> Tensor:
    return torch.randn(10, 2, 6, 6, generator=torch.Generator().manual_seed(2)).double()


def measure(network: nn.Module) -> dict[str, LayerWeightNormAndCurvature]:
    layers = measure_weight_norms_and_curvature(network, images(), epoch=3, learning_rate=RATE, seed=0)
    return {layer.layer: layer for layer in layers}


@pytest.mark.parametrize("norm", [NoNormalization, BN, LN, BLN, MBN])
def test_weight_norms_and_effective_rates_equal_numpys(norm: type[nn.Module]) -> None:
    network = network_of(norm)
    for name, layer in measure(network).items():
        weights = network.get_submodule(name).weight.detach().numpy()
        squares = [float((unit**2).sum()) for unit in weights]
        assert layer.weight_norm == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-12)
        assert layer.effective_rate == pytest.approx(np.mean([RATE / square for square in squares]), rel=1e-12)
        assert layer.epoch == 3


@pytest.mark.parametrize(("norm", "axes"), [(BN, (0, 2, 3)), (BLN, (0, 2, 3)), (LN, (1,))])
def test_the_deviation_is_that_of_the_normalization_layer_behind(norm: type[nn.Module], axes: tuple[int, ...]) -> None:
    """The second normalization layer reads the output of tanh, so that the dense layers have none."""
    network = network_of(norm)
    summed = network[0](images()).detach().numpy()
    layers = measure(network)
    assert layers["0"].deviation == pytest.approx(np.sqrt(np.mean(summed.std(axes) ** 2)), rel=1e-10)
    assert layers["4"].deviation is layers["7"].deviation is layers["4"].gain_curvature is None


def test_the_mean_curvature_estimates_the_trace() -> None:
    network, x = network_of(BN), images()
    name = "7.weight"
    size = network.get_parameter(name).numel()
    trace = sum(
        compute_directional_fisher_curvature(network, x, {name: direction.view(4, 6)})
        for direction in torch.eye(size).double()
    )
    estimates = [
        measure_weight_norms_and_curvature(network, x, epoch=1, learning_rate=RATE, seed=seed)[2] for seed in range(12)
    ]
    assert np.mean([layer.curvature for layer in estimates]) == pytest.approx(trace / size, rel=0.25)


def test_zero_weights_have_no_rate_and_no_radial_direction() -> None:
    network = network_of(BN)
    nn.init.zeros_(network[7].weight)
    layer = measure(network)["7"]
    assert layer.weight_norm == 0
    assert layer.effective_rate is layer.radial_curvature is None


def test_nothing_is_recorded_in_the_memory_of_mbn() -> None:
    network = network_of(MBN).train()
    network(images())
    before = network[1].memory.clone()
    measure(network)
    assert torch.equal(network[1].memory, before)
    assert all(layer.training for layer in network.modules())


def test_no_hook_is_left_behind():
    network = network_of(BN)
    measure_weight_norms_and_curvature(
        network, torch.randn(8, 2, 6, 6, dtype=torch.float64), epoch=1, learning_rate=0.1, seed=0
    )
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())
