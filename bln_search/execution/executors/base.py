"""What every executor does: trials carried out somewhere, each message heard here."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Protocol

import torch

from bln_search.core.errors import BlnSearchError, CheckpointStoreError, DataAbsentError, StorageFullError
from bln_search.core.files import NO_ROOM
from bln_search.core.states import FailureClass
from bln_search.execution.messages import Message, Task, TaskFailed, Verdict

NextTask = Callable[[], Task | None]
"""Called when there is room for a trial; None where there is none to carry out now."""

Report = Callable[[Task, Message], Verdict]
"""Called with every message of a trial, in its order; the verdict counts after an epoch of a prunable one."""

Pulse = Callable[[list[int]], None]
"""Called now and then with the tokens of the trials under way; it may raise to stop everything."""


class Executor(Protocol):
    """Carries trials out until there is none left and none under way.

    A process that dies is reported as an infrastructure failure of its trial. Leaving by an exception ends everything
    that is under way.
    """

    def run(self, next_task: NextTask, report: Report, pulse: Pulse, trials: int = 1) -> None:
        """Carry out every task that `next_task` gives. trials: about how many there are."""


def failed(error: Exception) -> TaskFailed:
    """The failure that an exception in a trial stands for.

    Out of memory: again with less. A machine that gives way (files, connections, an accelerator): again; what an
    accelerator has refused once it refuses in that process for ever. What the study or the code asks for in vain fails
    the same way every time, and is not tried again.
    """
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or _no_memory(error):
        return TaskFailed(FailureClass.OUT_OF_MEMORY, reason)
    if isinstance(error, CheckpointStoreError | DataAbsentError):
        return _lacking(error)
    full = isinstance(error, StorageFullError) or (isinstance(error, OSError) and error.errno in NO_ROOM)
    if isinstance(error, BlnSearchError):
        return TaskFailed(FailureClass.USER_ERROR, str(error), disk_full=full)
    if _accelerator_gave_way(error):
        return TaskFailed(FailureClass.INFRASTRUCTURE, reason, process_spoilt=True)
    if isinstance(error, OSError | EOFError):
        return TaskFailed(FailureClass.INFRASTRUCTURE, reason, disk_full=full)
    return TaskFailed(FailureClass.USER_ERROR, reason)


def _lacking(error: CheckpointStoreError | DataAbsentError) -> TaskFailed:
    """Nothing is wrong with the trial: what it needs is not there."""
    if isinstance(error, DataAbsentError):
        return TaskFailed(FailureClass.INFRASTRUCTURE, f"on {socket.gethostname()}: {error}", data_absent=True)
    return TaskFailed(FailureClass.INFRASTRUCTURE, str(error), store_gone=True)


_NO_MEMORY = (
    "DefaultCPUAllocator",
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)
"""What torch, or a library under it, says in a plain RuntimeError where it cannot allocate."""

_CUDNN = "CUDNN_STATUS_INTERNAL_ERROR"
"""What cuDNN says of many things, of memory that it could not have among them."""

_SCARCE = 0.05
"""Part of a GPU's memory that is free, below which cuDNN's error is put down to it."""


def _no_memory(error: Exception) -> bool:
    if not isinstance(error, RuntimeError):
        return False
    text = str(error)
    return any(known in text for known in _NO_MEMORY) or (_CUDNN in text and _memory_is_scarce())


def _memory_is_scarce() -> bool:
    """Of the current GPU; what torch keeps for itself counts as taken."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    free, total = torch.cuda.mem_get_info()
    return free < _SCARCE * total


def _accelerator_gave_way(error: Exception) -> bool:
    kinds = tuple(kind for kind in (getattr(torch, "AcceleratorError", None),) if kind is not None)
    return isinstance(error, kinds) or (isinstance(error, RuntimeError) and _CUDNN in str(error))
