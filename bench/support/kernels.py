"""Measurement with and without compiled kernels, and of their first use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from bln_search.core.enums import Semantics
from bln_search.norms.row_batching.compiled.availability import are_kernels_installed, use_torch_instead_of_kernels

WITHOUT_KERNELS, WITH_KERNELS = "torch", "with_kernels"
"""Names of the two variants."""


def kernel_contexts(device: str) -> dict[str, Callable[[], AbstractContextManager[None]]]:
    """Return the context in which each variant is measured; kernels run on CPU."""
    has_kernels = device == "cpu" and are_kernels_installed()
    return {WITHOUT_KERNELS: use_torch_instead_of_kernels, **({WITH_KERNELS: nullcontext} if has_kernels else {})}


def with_kernels(result: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a result that compiled kernels have; empty where they are not installed."""
    if WITH_KERNELS not in result:
        return {}
    return {WITH_KERNELS: {**result[WITH_KERNELS], "first_use": measure_first_use()}}


def measure_first_use() -> dict[str, float]:
    """Return the seconds that a process needs to load and compile the kernel of a traversal of LeNet.

    The first process compiles them and writes them to disk, the second one reads them.
    """
    with tempfile.TemporaryDirectory() as folder:
        seconds = [_seconds_in_new_process(folder) for _ in range(2)]
    return {"seconds_compiled": seconds[0], "seconds_from_disk": seconds[1]}


def _seconds_in_new_process(cache: str) -> float:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    command = [sys.executable, "-m", "bench.support.kernels"]
    process = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    seconds: float = json.loads(process.stdout.splitlines()[-1])
    return seconds


def _seconds_of_first_call() -> float:
    """Return the seconds by which the first traversal over some examples is longer than the second one."""
    from bench.per_layer import make_evaluator
    from bench.support.timing import time_call

    tree = make_evaluator("lenet", Semantics.PAPER, torch.float32, "cpu", 100)
    first, second = (time_call(tree.sum_scores_of_all_configurations) for _ in range(2))
    return first - second


if __name__ == "__main__":
    print(_seconds_of_first_call())
