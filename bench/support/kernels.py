"""Measurement with and without compiled kernels, and of their first use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

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
    """Return the seconds that a process needs to load and compile all kernels.

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


def _use_all_kernels() -> None:
    """Call each kernel once, on arrays of the types that evaluations have."""
    import numpy as np

    from bln_search.norms.row_batching.compiled.dense_tail import add_scores_of_last_layers
    from bln_search.norms.row_batching.compiled.separate_rows import normalize_separate_rows
    from bln_search.norms.row_batching.compiled.sum_tanh import tanh_of_sums

    def zeros(length: int) -> Any:
        return np.zeros(length, np.float32)

    rows = np.zeros((1, 2), np.int64)
    scalars, is_true = (1.0, 1.0, 1e-3, 0.0, 1.0), True
    tanh_of_sums(*(zeros(64) for _ in range(4)), rows, rows, rows, (1, 1, 1, 1, 8, 8), 0, 1, is_true, zeros(16))
    add_scores_of_last_layers(
        zeros(32),
        zeros(32),
        rows,
        np.zeros(16, np.int64),
        zeros(2 * 2 * 16),
        zeros(16),
        zeros(16),
        zeros(2),
        scalars,
        is_true,
        np.zeros((1, 2), np.int64),
        (1, 16, 2, 3, 16),
        0,
        1,
        np.zeros(1),
        np.zeros(1, np.int64),
    )
    population = zeros(16), zeros(16), np.zeros((1, 2), np.bool_)
    normalize_separate_rows(
        zeros(32),
        zeros(16),
        zeros(16),
        population,
        population,
        scalars[:3],
        scalars[:3],
        (is_true, is_true),
        (1, 2, 1, 16),
        0,
        1,
        zeros(32),
    )


if __name__ == "__main__":
    start = time.perf_counter()
    _use_all_kernels()
    print(time.perf_counter() - start)
