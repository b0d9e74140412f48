"""Checkpoints are written whole or not at all and recognized when damaged."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bln_search.core.checkpoints import Folder
from bln_search.core.errors import DataError
from bln_search.core.words import PopulationEstimate
from bln_search.evaluation import gather_frozen
from bln_search.norms import BLN
from bln_search.training.checkpoint import load_weights, read_checkpoint, write_checkpoint


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), BLN(3, semantics="reference"))


def test_weights_and_populations_come_back_bit_for_bit(tmp_path):
    ours = network()
    gathered = {PopulationEstimate.FROZEN: gather_frozen(ours, torch.randn(5, 6, 4))}
    name, sha = write_checkpoint(Folder(tmp_path / "folder"), dict(ours.named_parameters()), gathered, {"seed": 1})
    weights, back = read_checkpoint(Folder(tmp_path / "folder"), name, sha)
    fresh = nn.Sequential(nn.Linear(4, 3), BLN(3, semantics="reference"))
    load_weights(fresh, weights)
    for a, b in zip(ours.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(a, b)
    expected = gathered[PopulationEstimate.FROZEN]["1"]
    assert torch.equal(back[PopulationEstimate.FROZEN]["1"].feature.variance, expected.feature.variance)


def test_a_damaged_or_absent_file_is_named(tmp_path):
    name, sha = write_checkpoint(Folder(tmp_path), dict(network().named_parameters()), {}, {})
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match="damaged: its SHA-256 is"):
        read_checkpoint(Folder(tmp_path), name, sha)
    with pytest.raises(DataError, match="cannot be read"):
        read_checkpoint(Folder(tmp_path), "none", sha)


def test_weights_of_another_network_are_refused():
    with pytest.raises(DataError, match="another network"):
        load_weights(network(), {"x": torch.zeros(1)})
