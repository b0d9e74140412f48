"""The executor of each name, and how many trials it runs at the same time."""

from __future__ import annotations

import pytest
import typer

from bln_search.cli.environment import make_executor
from bln_search.cli.options import ExecutorName
from bln_search.core.checkpoints import FolderStore
from bln_search.execution.environment import ExecutionEnvironment


@pytest.mark.parametrize(
    ("name", "device", "trials_per_process", "expected"),
    [
        (ExecutorName.LOCAL, "cpu", None, 3),
        (ExecutorName.FUSED, "cpu", None, 24),
        (ExecutorName.FUSED, "cuda:0", None, 192),
        (ExecutorName.FUSED, "cpu", 5, 15),
        (None, "cpu", None, 3),
        (None, "cuda", None, 192),
        (None, "cuda:1", 5, 15),
    ],
)
def test_three_processes_run_so_many_trials(tmp_path, name, device, trials_per_process, expected):
    """Without a name: fused trials on a GPU, single ones on the CPU."""
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path), device=device)
    with make_executor(name, environment, 3, None, None, None, trials_per_process) as executor:
        assert executor.num_parallel_trials(1000) == expected


@pytest.mark.parametrize("option", [4, None])
def test_trials_per_gpu_are_single_trials(tmp_path, monkeypatch, option):
    """As an option and as a setting."""
    monkeypatch.setenv("BLN_SEARCH_TRIALS_PER_GPU", "4")
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path), device="cuda:0")
    with make_executor(None, environment, None, None, None, option, None) as executor:
        assert executor.num_parallel_trials(1000) == 4


def test_fused_trials_on_the_cpu_are_asked_for_by_name(tmp_path):
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path))
    with pytest.raises(typer.BadParameter, match="--executor fused or ray"):
        make_executor(None, environment, None, None, None, None, 4)


def test_fused_trials_get_no_additional_process(tmp_path, monkeypatch):
    """Three single trials on two cores have three processes; a program needs its trials in one."""
    monkeypatch.setattr("bln_search.execution.executors.local.num_available_cores", lambda: 2)
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path))
    with make_executor(ExecutorName.FUSED, environment, None, None, None, None, 4) as executor:
        assert executor.num_parallel_trials(3) == 8
        assert executor.num_parallel_trials(1) == 4


@pytest.mark.parametrize(("trials_per_process", "expected"), [(None, 8), (40, 40)])
def test_the_option_also_sets_the_trials_that_inform_a_sampler(tmp_path, trials_per_process, expected):
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path), device="cuda:0")
    with make_executor(None, environment, None, None, None, None, trials_per_process) as executor:
        assert executor.informing_trials_per_process == expected
