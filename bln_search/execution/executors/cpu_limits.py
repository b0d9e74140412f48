"""CPU cores that this process may use, and the number of trials that run side by side."""

from __future__ import annotations

import os
from math import ceil
from pathlib import Path

_CGROUP_ROOT = Path("/sys/fs/cgroup")


def num_available_cores() -> int:
    """Cores that this process may use: its CPU affinity, bounded by the CPU quota of its control groups."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, find_cgroup_cpu_quota(_cgroup_of_this_process(), _CGROUP_ROOT) or count)


def find_cgroup_cpu_quota(group: str, root: Path) -> int | None:
    """Cores that a control group (version 2) and its parents may use, rounded up; None without a quota.

    Args:
        group: Path of the group below `root`.
        root: Folder of the cgroup file system.
    """
    quotas = []
    folder = root / group.strip("/")
    for parent in (folder, *folder.parents):
        if parent.is_relative_to(root):
            try:
                quota, period = (parent / "cpu.max").read_text().split()
                quotas.append(ceil(int(quota) / int(period)))
            except (OSError, ValueError):  # the file is missing, or its quota is `max`
                continue
    return max(1, min(quotas)) if quotas else None


def _cgroup_of_this_process() -> str:
    """The control group of this process, relative to the root; inside a container usually the root itself."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return ""
    return next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "")


def choose_num_processes_per_device(device: str, trials: int, available: int) -> int:
    """The number of processes on one device: 1 on a GPU, otherwise one for each of `available` cores.

    With fewer than twice as many trials as cores every trial gets a process: three trials on two cores end earlier side
    by side, each with two thirds of a core, than two and then one.
    """
    if device.startswith("cuda"):
        return 1
    return trials if available < trials < 2 * available else available
