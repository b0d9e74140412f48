"""Repeatable runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from bln_search.norms.precision import full_precision


@contextmanager
def repeatable(seed: int, *, threads: int | None = None) -> Iterator[None]:
    """Inside this context torch's generators start from `seed` and only deterministic kernels run.

    threads: how many a CPU operation may use; sums depend on it, so a trial fixes it. New buffers are not filled first,
    as torch would in this mode: each of ours is written before it is read, and that would cost a write more.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    fills = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(mode=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        with full_precision():  # as on CPU
            yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.utils.deterministic.fill_uninitialized_memory = fills  # type: ignore[attr-defined]
        torch.set_num_threads(before[1])
