"""The failure class of every exception, which decides about retries."""

from __future__ import annotations

import errno

import pytest
import torch

from bln_search.core.errors import DataError, DataReadError, DataUnavailableOnMachineError, ModelError, StorageFullError
from bln_search.core.states import FailureClass
from bln_search.execution.executors.base import make_task_failed_message


@pytest.mark.parametrize(
    ("error", "failure", "is_disk_full"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), FailureClass.OUT_OF_MEMORY, False),
        (MemoryError(), FailureClass.OUT_OF_MEMORY, False),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory"),
            FailureClass.OUT_OF_MEMORY,
            False,
        ),
        (RuntimeError("CUDA out of memory. Tried to allocate"), FailureClass.OUT_OF_MEMORY, False),
        (torch.AcceleratorError("CUDA error: out of memory"), FailureClass.OUT_OF_MEMORY, False),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            FailureClass.OUT_OF_MEMORY,
            False,
        ),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), FailureClass.OUT_OF_MEMORY, False),
        (RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"), FailureClass.INFRASTRUCTURE, False),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), FailureClass.INFRASTRUCTURE, False),
        (RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED"), FailureClass.INFRASTRUCTURE, False),
        (OSError(errno.EIO, "input/output error"), FailureClass.INFRASTRUCTURE, False),
        (ConnectionResetError(), FailureClass.INFRASTRUCTURE, False),
        (torch.AcceleratorError("CUDA error: an illegal memory access"), FailureClass.INFRASTRUCTURE, False),
        (OSError(errno.ENOSPC, "no space left"), FailureClass.INFRASTRUCTURE, True),
        (StorageFullError("no room"), FailureClass.USER_ERROR, True),
        (ModelError("no norm"), FailureClass.USER_ERROR, False),
        (DataError("no file"), FailureClass.USER_ERROR, False),
        (DataUnavailableOnMachineError("no file here"), FailureClass.INFRASTRUCTURE, False),
        (DataReadError("stale handle"), FailureClass.INFRASTRUCTURE, False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), FailureClass.USER_ERROR, False),
        (TypeError("missing argument"), FailureClass.USER_ERROR, False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exception_determines_the_failure_class(error, failure, is_disk_full):
    message = make_task_failed_message(error)
    assert (message.failure, message.machine_error is StorageFullError) == (failure, is_disk_full)
    assert message.reason


def test_data_that_cannot_be_read_at_present_is_not_missing():
    assert make_task_failed_message(DataUnavailableOnMachineError("no file here")).machine_error
    assert not make_task_failed_message(DataReadError("stale handle")).machine_error


def test_only_accelerator_errors_make_the_process_unusable():
    assert make_task_failed_message(torch.AcceleratorError("CUDA error: an illegal memory access")).process_unusable
    assert not make_task_failed_message(torch.OutOfMemoryError("CUDA out of memory")).process_unusable
    assert not make_task_failed_message(OSError(errno.EIO, "input/output error")).process_unusable


@pytest.mark.parametrize("status", ["CUDNN_STATUS_INTERNAL_ERROR", "CUBLAS_STATUS_NOT_INITIALIZED"])
@pytest.mark.parametrize(("free", "failure"), [(1, FailureClass.OUT_OF_MEMORY), (50, FailureClass.INFRASTRUCTURE)])
def test_ambiguous_error_with_low_memory_is_out_of_memory(monkeypatch, free, failure, status):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, 100))
    message = make_task_failed_message(RuntimeError(f"CUDA error: {status}"))
    assert message.failure is failure
    assert message.process_unusable == (failure is FailureClass.INFRASTRUCTURE)


def test_failed_allocation_is_out_of_memory():
    with pytest.raises(RuntimeError) as error:
        torch.empty(2**60)
    assert make_task_failed_message(error.value).failure is FailureClass.OUT_OF_MEMORY
