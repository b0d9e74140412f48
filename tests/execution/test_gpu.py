"""Limits and peaks of GPU memory, and versions that results on a GPU depend on."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from bln_search.core.checkpoints import FolderStore
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.gpu import (
    describe_gpu,
    find_driver_version,
    limit_gpu_memory,
    read_peak_memory,
    reset_peak_memory,
)


@pytest.mark.parametrize(
    ("fraction", "alone", "limits"),
    [(0.25, False, [0.25]), (0.25, True, [1.0]), (1.0, False, []), (1.0, True, []), (0.0, False, []), (2.0, False, [])],
)
def test_only_a_shared_gpu_has_a_memory_limit(monkeypatch, fraction, alone, limits):
    given = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", given.append)
    limit_gpu_memory(fraction, alone=alone)
    assert given == limits


def test_peak_is_that_of_the_own_gpu(monkeypatch):
    reset = []
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", reset.append)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: {"cuda:1": 7}[device])
    reset_peak_memory("cuda:1")
    reset_peak_memory("cpu")
    reset_peak_memory(None)
    assert reset == ["cuda:1"]
    assert read_peak_memory("cuda:1") == 7
    assert read_peak_memory("cpu") is None


def test_peak_of_a_process_with_several_trials_is_not_that_of_a_trial(tmp_path):
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path), device="cuda:1")
    assert environment.peak_memory_device == "cuda:1"
    assert read_peak_memory(replace(environment, runs_one_trial=False).peak_memory_device) is None


CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version:  gcc 9\n"
)
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build  (dvs-builder@U16)  Fri Aug 16\n"
)


@pytest.mark.parametrize(
    ("content", "version"), [(CLOSED, "535.104.05"), (OPEN, "560.35.03"), ("nothing known\n", None), (None, None)]
)
def test_version_of_the_driver(tmp_path, content, version):
    file = tmp_path / "version"
    if content is not None:
        file.write_text(content)
    assert find_driver_version(file) == version


def test_gpu_is_described_and_other_devices_are_not(monkeypatch):
    properties = SimpleNamespace(major=9, minor=0, uuid="8932f937-d72c")
    monkeypatch.setattr(torch.cuda, "get_device_properties", {"cuda:1": properties}.get)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)
    described = describe_gpu("cuda:1")
    assert {name: described[name] for name in ("cuda", "cudnn", "capability", "gpu_uuid")} == {
        "cuda": "13.0",
        "cudnn": 91002,
        "capability": "9.0",
        "gpu_uuid": "8932f937-d72c",
    }
    assert describe_gpu("cpu") == {}
