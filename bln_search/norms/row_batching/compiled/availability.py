"""Where compiled kernels may be used, and their parallel execution."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_are_enabled: ContextVar[bool] = ContextVar("are_kernels_enabled", default=True)


@cache
def are_kernels_installed() -> bool:
    """Return whether the extra `fast` is installed."""
    return importlib.util.find_spec("numba") is not None


def find_kernel_version() -> str | None:
    """Return the version of the package that compiles the kernels; None where it is not installed or not used."""
    return version("numba") if are_kernels_installed() and are_kernels_enabled() else None


def are_kernels_enabled() -> bool:
    """Return whether kernels are used where they are installed."""
    return _are_enabled.get() and os.environ.get("BLN_SEARCH_COMPILED_KERNELS", "true").lower() not in ("0", "false")


def can_kernels_read(*tensors: Tensor | None) -> bool:
    """Return whether kernels are installed and can read these tensors.

    These are contiguous, in single precision, on CPU, and no gradient is computed.
    """
    return (
        are_kernels_installed()
        and are_kernels_enabled()
        and all(
            tensor is not None
            and tensor.dtype == torch.float32
            and tensor.device.type == "cpu"
            and tensor.is_contiguous()
            and not (tensor.requires_grad and torch.is_grad_enabled())
            for tensor in tensors
        )
    )


def flat_array(tensor: Tensor) -> NDArray[Any]:
    """Return the memory of a contiguous tensor as a flat array, without a copy."""
    array: NDArray[Any] = tensor.detach().numpy().reshape(-1)
    return array


def index_array(pairs: tuple[tuple[int, int], ...]) -> NDArray[np.int64]:
    """Return pairs of indices, (pairs, 2)."""
    return np.array(pairs, np.int64).reshape(-1, 2)


def run_in_threads(kernel: Callable[[int, int], None], count: int) -> None:
    """Call `kernel(start, stop)` for parts of `count` items, one part for each thread of torch.

    The kernel releases the global interpreter lock.
    """
    threads = max(1, min(torch.get_num_threads(), count))
    bounds = [count * part // threads for part in range(threads + 1)]
    if threads == 1:
        kernel(0, count)
        return
    others = [
        _thread_pool(os.getpid(), threads - 1).submit(kernel, start, stop)
        for start, stop in zip(bounds[1:-1], bounds[2:], strict=True)
    ]
    kernel(bounds[0], bounds[1])
    for other in others:
        other.result()


@cache
def _thread_pool(_process: int, threads: int) -> ThreadPoolExecutor:
    """Return the threads of this process; a forked process has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix="kernels")
