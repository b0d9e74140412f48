"""Checkpoints are written whole or not at all and recognized when damaged."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import nn

from bln_search.core.errors import DataError, StorageFullError
from bln_search.core.words import PopulationEstimate
from bln_search.evaluation import gather_frozen
from bln_search.norms import BLN
from bln_search.training.checkpoint import load_weights, read_checkpoint, write_checkpoint, write_whole


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), BLN(3, semantics="reference"))


def test_weights_and_populations_come_back_bit_for_bit(tmp_path):
    ours = network()
    gathered = {PopulationEstimate.FROZEN: gather_frozen(ours, torch.randn(5, 6, 4))}
    name, sha = write_checkpoint(tmp_path / "folder", dict(ours.named_parameters()), gathered, {"seed": 1})
    weights, back = read_checkpoint(tmp_path / "folder" / name, sha)
    fresh = nn.Sequential(nn.Linear(4, 3), BLN(3, semantics="reference"))
    load_weights(fresh, weights)
    for a, b in zip(ours.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(a, b)
    expected = gathered[PopulationEstimate.FROZEN]["1"]
    assert torch.equal(back[PopulationEstimate.FROZEN]["1"].feature.variance, expected.feature.variance)


def test_a_damaged_or_absent_file_is_named(tmp_path):
    name, sha = write_checkpoint(tmp_path, dict(network().named_parameters()), {}, {})
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match="damaged: its SHA-256 is"):
        read_checkpoint(path, sha)
    with pytest.raises(DataError, match="cannot be read"):
        read_checkpoint(tmp_path / "none", sha)


def test_weights_of_another_network_are_refused():
    with pytest.raises(DataError, match="another network"):
        load_weights(network(), {"x": torch.zeros(1)})


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path):
    """A file size limit of the process stands in for a full disk: the kernel refuses the write in the same place."""
    path = tmp_path / "a.bin"
    write_whole(path, b"old")
    code = f"""
        import resource, signal
        from pathlib import Path
        from bln_search.core.errors import StorageFullError
        from bln_search.training import checkpoint
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            checkpoint.write_whole(Path({str(path)!r}), bytes(5000))
        except StorageFullError as error:
            print("refused")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "refused"
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_no_room_left_is_said_with_what_to_do(tmp_path, monkeypatch):
    """/dev/full refuses every write with the error of a full disk."""
    monkeypatch.setattr(
        "tempfile.mkstemp", lambda **_: (os.open("/dev/full", os.O_WRONLY), str(tmp_path / "unfinished"))
    )
    with pytest.raises(StorageFullError, match=r"no room left to write .*a.bin.*free some space"):
        write_whole(tmp_path / "a.bin", b"x" * 100_000)
    assert not (tmp_path / "a.bin").exists()
