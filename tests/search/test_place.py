"""Devices are found by counting them."""

from __future__ import annotations

import pytest
import torch

from bln_search.core.checkpoints import Folder
from bln_search.core.errors import ModelError
from bln_search.execution.environment import Place, choose_device


@pytest.fixture
def two_gpus(monkeypatch):
    """Which are counted; whoever would use one fails."""

    def used(*_given, device, **_how):
        assert torch.device(device).type != "cuda", "a context was opened on a GPU"
        raise RuntimeError("there is none")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch, "empty", used)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cuda:1"])
def test_gpus_that_are_there_are_counted_and_not_used(two_gpus, name):
    assert choose_device(name) == name
    assert choose_device("auto") == "cuda"


@pytest.mark.parametrize("name", ["cuda:2", "cuda:x", "tpu", "xpu"])
def test_one_that_is_not_there_is_one_clear_error(two_gpus, name):
    with pytest.raises(ModelError, match=f"the device '{name}' cannot be used .*; use cpu, cuda"):
        choose_device(name)


def test_a_machine_without_a_gpu_takes_none_unless_trials_run_elsewhere(no_gpu, tmp_path):
    assert choose_device("auto") == choose_device("cpu") == "cpu"
    with pytest.raises(ModelError, match="torch sees 0 GPUs"):
        choose_device("cuda")
    assert choose_device("cuda", elsewhere=True) == "cuda"
    place = Place(tmp_path, tmp_path, Folder(tmp_path), "cuda", threads=3)
    assert (place.here.device, place.here.threads) == ("cpu", 3)


def test_a_machine_with_a_gpu_computes_on_it(two_gpus, tmp_path):
    assert Place(tmp_path, tmp_path, Folder(tmp_path), "cuda:1").here.device == "cuda:1"
