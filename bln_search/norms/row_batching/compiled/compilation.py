"""Compilation of kernels by Numba, kept on disk between processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compile_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel, which is compiled at its first call and releases the global interpreter lock.

    Numba keeps the machine code beside the source or, where that folder is read-only, in the cache folder of the user.
    It is compiled in each process where neither can be written.
    """
    kernel: Callable[..., Any]
    try:
        kernel = njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:  # no folder can be written
        kernel = njit(nogil=True, error_model="numpy")(function)
    return kernel
