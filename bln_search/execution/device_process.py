"""The process that uses a device: its GPU, and calls in a process of their own."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import get_context
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch

from bln_search.core.errors import TrialProcessLostError
from bln_search.execution.devices import UUID_PREFIXES, choose_first_device_name, is_gpu
from bln_search.execution.environment import ExecutionEnvironment

_P = ParamSpec("_P")
_T = TypeVar("_T")

_NUM_TEST_VALUES = 4096


def use_device_in_this_process(device: str) -> str:
    """Make a GPU the current one of this process, and compute on it once.

    A GPU with a UUID becomes the only one that this process sees, so no GPU may have been used before.

    Args:
        device: A single device of `list_devices_of_name`.

    Returns:
        The name by which torch knows the device in this process.

    Raises:
        RuntimeError: The GPU cannot be used or computes a wrong sum.
    """
    if not is_gpu(device):
        return device
    gpu = device.removeprefix("cuda").removeprefix(":") or "0"
    if gpu.startswith(UUID_PREFIXES):
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
        gpu = "0"
    device = f"cuda:{gpu}"
    torch.cuda.set_device(device)  # which refuses a name without an index
    total = torch.arange(_NUM_TEST_VALUES, device=device).sum().item()
    if total != _NUM_TEST_VALUES * (_NUM_TEST_VALUES - 1) // 2:
        raise RuntimeError(f"{device} computes a wrong sum")
    return device


def use_environment_in_this_process(environment: ExecutionEnvironment) -> ExecutionEnvironment:
    """The environment for work in this process: on its first device, or the CPU if torch sees no GPU."""
    return replace(environment, device=use_device_in_this_process(choose_first_device_name(environment.device)))


def call_in_own_process_if_gpu(
    function: Callable[Concatenate[ExecutionEnvironment, _P], _T],
    environment: ExecutionEnvironment,
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> _T:
    """Call a function with the adapted environment: in a process of its own for a GPU, so that this process opens none.

    Args:
        function: A function of a module; its arguments and its result can be pickled.
        environment: The first argument of the function; see `use_environment_in_this_process`.
        *args: Further arguments.
        **kwargs: Further arguments.

    Raises:
        TrialProcessLostError: The process ended unexpectedly.
    """
    device = choose_first_device_name(environment.device)
    if not is_gpu(device):
        return function(replace(environment, device=device), *args, **kwargs)
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as pool:
            result: _T = pool.submit(_call_on_first_device, function, environment, args, kwargs).result()
            return result
    except BrokenProcessPool:
        raise TrialProcessLostError(
            f"a process on {device} ended unexpectedly; the GPU may have failed, or memory ran out"
        ) from None


def _call_on_first_device(
    function: Callable[..., Any], environment: ExecutionEnvironment, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    return function(use_environment_in_this_process(environment), *args, **kwargs)
