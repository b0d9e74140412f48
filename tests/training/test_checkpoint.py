"""Checkpoints restore weights and populations, and damage is an error."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import DataError
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.models import build_model
from bln_search.models.analytic import set_ap2_input_moments
from bln_search.norms import BLN, make_norm
from bln_search.norms.analytic.layer import AP2
from bln_search.training.checkpoint import (
    clone_weights,
    copy_weights_into_network,
    read_checkpoint_weights_and_moments,
    weights_and_buffers_by_name,
    write_checkpoint,
)

AP2_OPTIONS = {"widths": [5, 4], "placement": "before"}


def build_network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), BLN(3, semantics="reference"))


def test_weights_and_populations_are_restored_bit_for_bit(tmp_path):
    network = build_network()
    moments = {PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(network, torch.randn(5, 6, 4))}
    name, sha256 = write_checkpoint(
        FolderStore(tmp_path / "folder"), dict(network.named_parameters()), moments, {"seed": 1}
    )
    weights, read_moments = read_checkpoint_weights_and_moments(FolderStore(tmp_path / "folder"), name, sha256)
    restored = nn.Sequential(nn.Linear(4, 3), BLN(3, semantics="reference"))
    copy_weights_into_network(restored, weights)
    for original, parameter in zip(network.parameters(), restored.parameters(), strict=True):
        assert torch.equal(parameter, original)
    expected = moments[PopulationEstimate.FROZEN]["1"]
    assert torch.equal(read_moments[PopulationEstimate.FROZEN]["1"].feature.variance, expected.feature.variance)


def test_a_damaged_or_missing_checkpoint_is_an_error(tmp_path):
    name, sha256 = write_checkpoint(FolderStore(tmp_path), dict(build_network().named_parameters()), {}, {})
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match=f"damaged: .* {sha256}"):
        read_checkpoint_weights_and_moments(FolderStore(tmp_path), name, sha256)
    with pytest.raises(DataError, match=f"{tmp_path}/none"):
        read_checkpoint_weights_and_moments(FolderStore(tmp_path), "none", sha256)


def test_weights_of_another_network_are_an_error():
    with pytest.raises(DataError, match="another network"):
        copy_weights_into_network(build_network(), {"x": torch.zeros(1)})


class Shifted(nn.Module):
    """A layer of another package, with a persistent and a non-persistent buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.randn(3))
        self.register_buffer("temporary", torch.randn(3), persistent=False)

    def forward(self, x):
        return x + self.shift


def test_weights_include_only_buffers_of_foreign_layers():
    network = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3), Shifted(), BLN(3))
    running = {"0.running_mean", "0.running_var", "0.num_batches_tracked"}
    parameters = {name for name, _ in network.named_parameters()}
    assert weights_and_buffers_by_name(network).keys() == parameters | running | {"2.shift"}
    network[3].register_buffer("own", torch.zeros(1))
    assert "3.own" not in weights_and_buffers_by_name(network)


def test_moments_of_the_inputs_are_restored_in_their_shape(tmp_path):
    trained, restored = (
        build_model("mlp", (1, 2, 3), 3, partial(make_norm, "ap2"), seed=seed, options=AP2_OPTIONS) for seed in (0, 1)
    )
    mean, variance = torch.randn(1, 2, 3), torch.rand(1, 2, 3) + 1
    set_ap2_input_moments(trained, mean, variance)
    name, sha256 = write_checkpoint(FolderStore(tmp_path), weights_and_buffers_by_name(trained), {}, {})
    copy_weights_into_network(restored, read_checkpoint_weights_and_moments(FolderStore(tmp_path), name, sha256)[0])
    first = next(module for module in restored.modules() if isinstance(module, AP2))
    assert torch.equal(first.input_mean, mean)
    assert torch.equal(first.input_variance, variance)
    x = torch.randn(7, 1, 2, 3)
    assert torch.equal(restored.eval()(x), trained.eval()(x))


def test_torchs_running_statistics_are_restored(tmp_path):
    torch.manual_seed(1)
    network = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3), Shifted(), BLN(3))
    for _ in range(3):
        network(torch.randn(10, 4) * 5 + 2)
    weights = clone_weights(weights_and_buffers_by_name(network))
    x = torch.randn(7, 4)
    expected = network.eval()(x)
    name, sha256 = write_checkpoint(FolderStore(tmp_path), weights, {}, {})
    network.train()(torch.randn(10, 4) * 50)
    restored = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3), Shifted(), BLN(3))
    copy_weights_into_network(restored, read_checkpoint_weights_and_moments(FolderStore(tmp_path), name, sha256)[0])
    assert torch.equal(restored.eval()(x), expected)
    assert restored[0].num_batches_tracked == 3
