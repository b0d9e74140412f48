"""How many trials side by side."""

from __future__ import annotations

import os


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def choose_workers(device: str, trials: int, available: int) -> int:
    """One on a GPU; otherwise one for each of `available` cores, or one a trial where there are few more trials.

    Three trials on two cores end earlier side by side, each with two thirds of a core, than two and then one.
    """
    if device.startswith("cuda"):
        return 1
    return trials if available < trials < 2 * available else available
