"""The GPU of a process. Real GPUs are not needed: torch's functions are recorded."""

from __future__ import annotations

import os

import pytest
import torch
from torch.cuda._utils import _get_device_index

from bln_search.core.checkpoints import FolderStore
from bln_search.execution.device_process import (
    call_in_own_process_if_gpu,
    use_device_in_this_process,
    use_environment_in_this_process,
)
from bln_search.execution.environment import ExecutionEnvironment


@pytest.fixture
def environment(tmp_path):
    def make(device):
        return ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path), device, threads=3)

    return make


@pytest.fixture
def current_gpu(monkeypatch):
    """The GPUs that were made the current one; values on them are on the CPU."""
    chosen, arange = [], torch.arange

    def set_device(device):
        _get_device_index(device)  # as torch's: an error for a name without an index
        chosen.append(device)

    monkeypatch.setattr(torch.cuda, "set_device", set_device)
    monkeypatch.setattr(torch, "arange", lambda *sizes, device: arange(*sizes))  # noqa: PLW0108 - a GPU is named
    return chosen


def test_gpu_of_the_process_is_the_current_one(current_gpu):
    assert use_device_in_this_process("cuda:2") == "cuda:2"
    assert use_device_in_this_process("cpu") == "cpu"
    assert current_gpu == ["cuda:2"]


def test_gpu_with_a_uuid_is_the_only_visible_one(current_gpu, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert use_device_in_this_process("cuda:GPU-8932f937") == "cuda:0"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-8932f937"
    assert current_gpu == ["cuda:0"]


def test_gpu_with_a_wrong_sum_is_refused(current_gpu, monkeypatch):
    monkeypatch.setattr(torch, "arange", lambda *_sizes, device: torch.zeros(4))
    with pytest.raises(RuntimeError, match="cuda:1 computes a wrong sum"):
        use_device_in_this_process("cuda:1")


def test_work_of_a_driver_without_gpu_is_on_the_cpu(environment, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    adapted = use_environment_in_this_process(environment("cuda"))
    assert (adapted.device, adapted.threads) == ("cpu", 3)
    assert call_in_own_process_if_gpu(process_and_device, environment("cuda")) == (os.getpid(), "cpu")


def process_and_device(environment):
    return os.getpid(), environment.device


def test_gpu_is_used_by_a_process_of_its_own(environment, monkeypatch):
    """The process of this test sees a GPU, the called one does not, so it falls back to the CPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    process, device = call_in_own_process_if_gpu(process_and_device, environment("cuda:0,1"))
    assert process != os.getpid()
    assert device == "cpu"
