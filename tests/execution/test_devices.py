"""The names of devices: which are accepted, and the single devices that they stand for."""

from __future__ import annotations

import pytest
import torch

from bln_search.core.errors import ModelError
from bln_search.execution.devices import choose_first_device_name, list_devices_of_name, resolve_device_name

UUID = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"


@pytest.fixture
def three_gpus(monkeypatch):
    """Three GPUs that may be counted; a CUDA context fails."""

    def used(*_given, device, **_how):
        assert torch.device(device).type != "cuda", "a context was opened on a GPU"
        raise RuntimeError("there is none")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch, "empty", used)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize(
    ("name", "devices"),
    [
        ("cuda", ["cuda:0", "cuda:1", "cuda:2"]),
        ("cuda:0", ["cuda:0"]),
        ("cuda:1", ["cuda:1"]),
        ("cuda:0,2", ["cuda:0", "cuda:2"]),
        (f"cuda:{UUID}", [f"cuda:{UUID}"]),
        (f"cuda:1,{UUID}", ["cuda:1", f"cuda:{UUID}"]),
    ],
)
def test_gpus_are_counted_and_not_initialized(three_gpus, name, devices):
    assert resolve_device_name(name) == name
    assert list_devices_of_name(name) == devices
    assert choose_first_device_name(name) == devices[0]
    assert resolve_device_name("auto") == "cuda"


@pytest.mark.parametrize(
    "name", ["cuda:3", "cuda:0,3", "cuda:x", "cuda:", "cuda:0,0", "cuda:-1", "cudax", "tpu", "xpu"]
)
def test_unknown_device_is_named_in_the_error(three_gpus, name):
    with pytest.raises(ModelError, match=f"'{name}'"):
        resolve_device_name(name)


def test_cuda_needs_a_gpu_unless_trials_run_elsewhere(no_gpu):
    assert resolve_device_name("auto") == resolve_device_name("cpu") == choose_first_device_name("cuda") == "cpu"
    for name in ("cuda", UUID):
        with pytest.raises(ModelError, match="0 GPUs"):
            resolve_device_name(name)
    assert resolve_device_name("cuda", elsewhere=True) == "cuda"
