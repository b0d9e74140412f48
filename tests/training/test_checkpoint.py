"""Checkpoints are written whole or not at all and recognized when damaged."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bln_search.core.checkpoints import Folder
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import DataError
from bln_search.evaluation import collect_frozen_moments
from bln_search.norms import BLN
from bln_search.training.checkpoint import copied, load_weights, network_weights, read_checkpoint, write_checkpoint


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), BLN(3, semantics="reference"))


def test_weights_and_populations_are_restored_bit_for_bit(tmp_path):
    ours = network()
    gathered = {PopulationEstimate.FROZEN: collect_frozen_moments(ours, torch.randn(5, 6, 4))}
    name, sha = write_checkpoint(Folder(tmp_path / "folder"), dict(ours.named_parameters()), gathered, {"seed": 1})
    weights, back = read_checkpoint(Folder(tmp_path / "folder"), name, sha)
    fresh = nn.Sequential(nn.Linear(4, 3), BLN(3, semantics="reference"))
    load_weights(fresh, weights)
    for a, b in zip(ours.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(a, b)
    expected = gathered[PopulationEstimate.FROZEN]["1"]
    assert torch.equal(back[PopulationEstimate.FROZEN]["1"].feature.variance, expected.feature.variance)


def test_a_damaged_or_missing_checkpoint_is_an_error(tmp_path):
    name, sha = write_checkpoint(Folder(tmp_path), dict(network().named_parameters()), {}, {})
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match="damaged: its SHA-256 is"):
        read_checkpoint(Folder(tmp_path), name, sha)
    with pytest.raises(DataError, match="cannot be read"):
        read_checkpoint(Folder(tmp_path), "none", sha)


def test_weights_of_another_network_are_an_error():
    with pytest.raises(DataError, match="another network"):
        load_weights(network(), {"x": torch.zeros(1)})


class Shifted(nn.Module):
    """A layer of somebody else's: one buffer is of its state, one is worked out anew."""

    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.randn(3))
        self.register_buffer("passing", torch.randn(3), persistent=False)

    def forward(self, x):
        return x + self.shift


def test_weights_include_only_buffers_of_foreign_layers():
    ours = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3), Shifted(), BLN(3))
    running = {"0.running_mean", "0.running_var", "0.num_batches_tracked"}
    parameters = {name for name, _ in ours.named_parameters()}
    assert network_weights(ours).keys() == parameters | running | {"2.shift"}
    ours[3].register_buffer("own", torch.zeros(1))
    assert "3.own" not in network_weights(ours)


def test_torchs_running_statistics_are_restored(tmp_path):
    torch.manual_seed(1)
    ours = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3), Shifted(), BLN(3))
    for _ in range(3):
        ours(torch.randn(10, 4) * 5 + 2)
    kept = copied(network_weights(ours))
    x = torch.randn(7, 4)
    expected = ours.eval()(x)
    name, sha = write_checkpoint(Folder(tmp_path), kept, {}, {})
    ours.train()(torch.randn(10, 4) * 50)
    fresh = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3), Shifted(), BLN(3))
    load_weights(fresh, read_checkpoint(Folder(tmp_path), name, sha)[0])
    assert torch.equal(fresh.eval()(x), expected)
    assert fresh[0].num_batches_tracked == 3
