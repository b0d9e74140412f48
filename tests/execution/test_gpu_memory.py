"""Limits and peaks of GPU memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bln_search.core.checkpoints import FolderStore
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.gpu import limit_gpu_memory, read_peak_memory, reset_peak_memory


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
