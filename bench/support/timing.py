"""Durations of calls, measured in turn; a GPU is awaited before and after each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch


def time_call(work: Callable[[], object], device: str = "cpu", clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of one call."""
    wait_for(device)
    start = clock()
    work()
    wait_for(device)
    return clock() - start


def wait_for(device: str) -> None:
    """Wait until a GPU has done its work."""
    if device != "cpu":
        torch.cuda.synchronize(device)


def time_in_turn(
    works: Mapping[str, Callable[[], object]],
    rounds: int,
    device: str = "cpu",
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Return the seconds of each work in each round, after one call to warm up; every round begins with another one."""
    names = list(works)
    for work in works.values():
        time_call(work, device, clock)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            seconds[name].append(time_call(works[name], device, clock))
    return seconds


def ratios(first: list[float], second: list[float]) -> list[float]:
    """Return the ratio of each round."""
    return [a / b for a, b in zip(first, second, strict=True)]
