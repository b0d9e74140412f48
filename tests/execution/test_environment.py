"""The device of trials."""

from __future__ import annotations

import pytest
import torch

from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import ModelError
from bln_search.execution.environment import ExecutionEnvironment, choose_device


@pytest.fixture
def two_gpus(monkeypatch):
    """Two GPUs that may be counted; a CUDA context fails."""

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
def test_gpus_are_counted_and_not_initialized(two_gpus, name):
    assert choose_device(name) == name
    assert choose_device("auto") == "cuda"


@pytest.mark.parametrize("name", ["cuda:2", "cuda:x", "tpu", "xpu"])
def test_unknown_device_is_named_in_the_error(two_gpus, name):
    with pytest.raises(ModelError, match=f"'{name}'"):
        choose_device(name)


def test_cuda_needs_a_gpu_unless_trials_run_elsewhere(no_gpu, tmp_path):
    assert choose_device("auto") == choose_device("cpu") == "cpu"
    with pytest.raises(ModelError, match="0 GPUs"):
        choose_device("cuda")
    assert choose_device("cuda", elsewhere=True) == "cuda"
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path), "cuda", threads=3)
    assert (environment.adapted_to_this_process.device, environment.adapted_to_this_process.threads) == ("cpu", 3)


def test_auto_chooses_the_gpu(two_gpus, tmp_path):
    assert (
        ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path), "cuda:1").adapted_to_this_process.device
        == "cuda:1"
    )
