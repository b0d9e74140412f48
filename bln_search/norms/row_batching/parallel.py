"""Parallel execution of kernels, and of functions that use torch, in the threads of torch.

Threads of torch wait actively for their next work, for milliseconds. Other threads would compete with them for the
processor, so kernels run in the same ones: `GOMP_parallel` of the OpenMP library that torch has loaded calls a function
in each. Where torch has another library, kernels run in threads of Python.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import torch

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
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


def count_independent_threads() -> int:
    """Return the number of threads in which `map_in_threads` calls a function.

    It is one where torch has another library, and under autocast, which is a setting of the calling thread.
    """
    return 1 if _find_openmp() is None or torch.is_autocast_enabled("cpu") else torch.get_num_threads()


def map_in_threads(function: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
    """Return the results of a function of each item, computed at the same time by the threads of torch.

    Operations of torch in the function then use one thread each, because OpenMP does not nest parallel regions. Context
    variables are those of the caller; settings of a thread, such as `torch.no_grad`, are not.
    """
    if len(items) == 1 or count_independent_threads() == 1:
        return [function(item) for item in items]
    results: dict[int, _Result] = {}
    contexts = [copy_context() for _ in items]

    def store_results(start: int, stop: int) -> None:
        for index in range(start, stop):
            results[index] = contexts[index].run(function, items[index])

    run_in_threads(store_results, len(items))
    return [results[index] for index in range(len(items))]


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
