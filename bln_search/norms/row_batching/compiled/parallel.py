"""Parallel execution of kernels in the threads of torch.

Threads of torch wait actively for their next work, for milliseconds. Other threads would compete with them for the
processor, so kernels run in the same ones: `GOMP_parallel` of the OpenMP library that torch has loaded calls a function
in each. Where torch has another library, kernels run in threads of Python.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path

import torch

_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def run_in_threads(kernel: Callable[[int, int], None], count: int) -> None:
    """Call `kernel(start, stop)` for parts of `count` items, one part for each thread of torch.

    The kernel releases the global interpreter lock. An error of a part is raised after all parts.
    """
    threads = max(1, min(torch.get_num_threads(), count))
    if threads == 1:
        kernel(0, count)
        return
    parts = list(pairwise(count * part // threads for part in range(threads + 1)))
    errors: list[BaseException] = []

    def run_part(_: object = None) -> None:
        while parts:
            try:
                start, stop = parts.pop()
            except IndexError:  # another thread was faster
                return
            try:
                kernel(start, stop)
            except BaseException as error:  # noqa: BLE001 - raised in the calling thread
                errors.append(error)

    library = _find_openmp()
    if library is None:
        others = [_thread_pool(os.getpid(), threads - 1).submit(run_part) for _ in range(threads - 1)]
        run_part()
        for other in others:
            other.result()
    else:
        library.GOMP_parallel(_Callback(run_part), None, threads, 0)
    if errors:
        raise errors[0]


@cache
def _find_openmp() -> ctypes.CDLL | None:
    """Return the GNU OpenMP library that torch has loaded; None where there is none."""
    package = Path(torch.__file__).parent
    for path in (*package.glob("lib/libgomp*"), *package.parent.glob("torch.libs/libgomp*")):
        try:
            library = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        except OSError:  # not loaded
            continue
        library.GOMP_parallel.argtypes = [_Callback, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        library.GOMP_parallel.restype = None
        return library
    return None


@cache
def _thread_pool(_process: int, threads: int) -> ThreadPoolExecutor:
    """Return the threads of this process; a forked process has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix="kernels")
