"""The executor protocol: run the trials of a study somewhere and report every message to the driver."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Protocol

import torch

from bln_search.core.errors import (
    BlnSearchError,
    CheckpointStoreError,
    CodeChangedError,
    DataReadError,
    DataUnavailableOnMachineError,
    StorageFullError,
)
from bln_search.core.files.atomic import DISK_FULL_ERRNOS
from bln_search.core.reasons import describe_exception, limit_reason
from bln_search.core.states import FailureClass
from bln_search.execution.messages import Message, PruneDecision, TaskFailed, TrialTask

NextTask = Callable[[], TrialTask | None]
"""Called when another trial can start; None if there is no trial to start now."""

OnMessage = Callable[[TrialTask, Message], PruneDecision]
"""Called with every message of a trial in order; the decision applies to an epoch of a prunable trial."""

OnTick = Callable[[list[int]], None]
"""Called regularly with the tokens of the running trials; raises to stop all of them."""


class Executor(Protocol):
    """Runs trials until no trial is left and none is running.

    An executor reports a process that ends unexpectedly as an infrastructure failure of its trial. An exception of a
    callback ends all running trials and is raised again.
    """

    def run(self, next_task: NextTask, on_message: OnMessage, on_tick: OnTick, trials: int = 1) -> None:
        """Run every task of `next_task`. trials: the approximate number of trials."""

    def num_parallel_trials(self, trials: int) -> int:
        """Largest number of trials that `run` runs in parallel. trials: the approximate number of trials."""


def make_task_failed_message(error: Exception) -> TaskFailed:
    """The failure that an exception of a trial stands for.

    Out of memory is retried with a lower memory limit. Infrastructure failures (files, connections, an accelerator) are
    retried; after an accelerator error every further task of the process would fail. A failure of the study or of the
    code repeats itself, so it is a user error and not retried.
    """
    reason = describe_exception(error)
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or _is_out_of_memory(error):
        return TaskFailed(FailureClass.OUT_OF_MEMORY, reason)
    if isinstance(error, CheckpointStoreError | CodeChangedError):
        kind = CodeChangedError if isinstance(error, CodeChangedError) else CheckpointStoreError
        return TaskFailed(FailureClass.INFRASTRUCTURE, str(error), kind)
    if isinstance(error, DataUnavailableOnMachineError):
        missing = None if isinstance(error, DataReadError) else DataUnavailableOnMachineError
        return TaskFailed(FailureClass.INFRASTRUCTURE, f"on {socket.gethostname()}: {error}", missing)
    is_disk_full = isinstance(error, OSError) and error.errno in DISK_FULL_ERRNOS
    disk_error = StorageFullError if is_disk_full or isinstance(error, StorageFullError) else None
    if isinstance(error, BlnSearchError):
        return TaskFailed(FailureClass.USER_ERROR, limit_reason(str(error)), disk_error)
    if _is_accelerator_error(error):
        return TaskFailed(FailureClass.INFRASTRUCTURE, reason, process_unusable=True)
    is_infrastructure = isinstance(error, OSError | EOFError)
    return TaskFailed(FailureClass.INFRASTRUCTURE if is_infrastructure else FailureClass.USER_ERROR, reason, disk_error)


_OUT_OF_MEMORY_TEXTS = (
    "DefaultCPUAllocator",
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)
"""Texts of the RuntimeErrors of torch, cuBLAS and cuDNN for a failed allocation."""

_AMBIGUOUS_TEXTS = (
    "CUDNN_STATUS_INTERNAL_ERROR",
    "CUDNN_STATUS_NOT_INITIALIZED",
    "CUDNN_STATUS_EXECUTION_FAILED",
    "CUBLAS_STATUS_INTERNAL_ERROR",
    "CUBLAS_STATUS_NOT_INITIALIZED",
    "CUBLAS_STATUS_EXECUTION_FAILED",
)
"""Errors of cuDNN and cuBLAS with several causes, a failed allocation among them."""

_LOW_MEMORY_FRACTION = 0.05
"""Fraction of free GPU memory below which an ambiguous error of cuDNN or cuBLAS counts as out of memory."""


def _is_out_of_memory(error: Exception) -> bool:
    if not isinstance(error, RuntimeError):
        return False
    text = str(error)
    return any(message in text for message in _OUT_OF_MEMORY_TEXTS) or (
        any(message in text for message in _AMBIGUOUS_TEXTS) and _gpu_memory_is_low()
    )


def _gpu_memory_is_low() -> bool:
    """Is little memory of the current GPU free? Memory that torch caches counts as used."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    free, total = torch.cuda.mem_get_info()
    return free < _LOW_MEMORY_FRACTION * total


def _is_accelerator_error(error: Exception) -> bool:
    return isinstance(error, getattr(torch, "AcceleratorError", ())) or (
        isinstance(error, RuntimeError) and any(message in str(error) for message in _AMBIGUOUS_TEXTS)
    )
