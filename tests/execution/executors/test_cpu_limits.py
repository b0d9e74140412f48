"""CPU quotas of control groups, and the number of trials side by side."""

from __future__ import annotations

import pytest

from bln_search.execution.executors.cpu_limits import choose_num_processes_per_device, find_cgroup_cpu_quota


@pytest.mark.parametrize(
    ("device", "trials", "cores", "workers"),
    [("cpu", 64, 2, 2), ("cpu", 3, 2, 3), ("cpu", 4, 2, 2), ("cpu", 1, 2, 2), ("cpu", 5, 4, 5), ("cuda:0", 9, 8, 1)],
)
def test_slightly_more_trials_than_cores_run_side_by_side(device, trials, cores, workers):
    assert choose_num_processes_per_device(device, trials, cores) == workers


@pytest.mark.parametrize(
    ("limits", "group", "cores"),
    [
        ({"": "400000 100000"}, "/", 4),  # a container sees its own group as the top
        ({"a": "max 100000", "a/b": "150000 100000"}, "/a/b", 2),
        ({"a": "50000 100000", "a/b": "max 100000"}, "/a/b", 1),
        ({"a": "max 100000"}, "/a", None),
        ({}, "/nowhere", None),
        ({"a": "nonsense"}, "/a", None),
    ],
)
def test_cpu_quota_of_a_container_limits_the_cores(tmp_path, limits, group, cores):
    for folder, limit in limits.items():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "cpu.max").write_text(f"{limit}\n")
    assert find_cgroup_cpu_quota(group, tmp_path) == cores
