"""How many trials side by side."""

from __future__ import annotations

import os
from math import ceil
from pathlib import Path

import torch

_GROUPS = Path("/sys/fs/cgroup")


def cores() -> int:
    """Cores that this process may use, by its affinity and, in a container, by its share of the machine."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, quota(_own_group(), _GROUPS) or count)


def quota(group: str, groups: Path) -> int | None:
    """Cores that a control group (version 2) and those around it may use, rounded up; None where nothing is limited."""
    found = []
    folder = groups / group.strip("/")
    for one in (folder, *folder.parents):
        if one.is_relative_to(groups):
            try:
                most, period = (one / "cpu.max").read_text().split()
                found.append(ceil(int(most) / int(period)))
            except (OSError, ValueError):  # there is none here, or it says max
                continue
    return max(1, min(found)) if found else None


def _own_group() -> str:
    """Of this process, below the folder of all groups; within a container usually the top."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return ""
    return next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "")


def gpus_of(device: str) -> list[str]:
    """The devices that `device` stands for: `cuda` for every GPU that torch sees, anything else for itself."""
    count = torch.cuda.device_count() if device == "cuda" else 0
    return [f"cuda:{index}" for index in range(count)] if count > 1 else [device]


def choose_workers(device: str, trials: int, available: int) -> int:
    """One on a GPU; otherwise one for each of `available` cores, or one a trial where there are few more trials.

    Three trials on two cores end earlier side by side, each with two thirds of a core, than two and then one.
    """
    if device.startswith("cuda"):
        return 1
    return trials if available < trials < 2 * available else available
