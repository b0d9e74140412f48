"""Every failure is of one class, and the class decides whether it is tried again."""

from __future__ import annotations

import errno

import pytest
import torch

from bln_search.core.errors import DataAbsentError, DataError, ModelError, StorageFullError
from bln_search.core.states import FailureClass
from bln_search.execution.executors.base import failed
from bln_search.execution.executors.cpu_limits import choose_workers, quota


@pytest.mark.parametrize(
    ("error", "failure", "disk_full"),
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
        (OSError(errno.EIO, "input/output error"), FailureClass.INFRASTRUCTURE, False),
        (ConnectionResetError(), FailureClass.INFRASTRUCTURE, False),
        (torch.AcceleratorError("CUDA error: an illegal memory access"), FailureClass.INFRASTRUCTURE, False),
        (OSError(errno.ENOSPC, "no space left"), FailureClass.INFRASTRUCTURE, True),
        (StorageFullError("no room"), FailureClass.USER_ERROR, True),
        (ModelError("no norm"), FailureClass.USER_ERROR, False),
        (DataError("no file"), FailureClass.USER_ERROR, False),
        (DataAbsentError("no file here"), FailureClass.INFRASTRUCTURE, False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), FailureClass.USER_ERROR, False),
        (TypeError("missing argument"), FailureClass.USER_ERROR, False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_happened_decides_the_class(error, failure, disk_full):
    message = failed(error)
    assert (message.failure, message.disk_full) == (failure, disk_full)
    assert message.reason


def test_only_an_accelerator_spoils_the_process_for_what_comes_next():
    assert failed(torch.AcceleratorError("CUDA error: an illegal memory access")).process_spoilt
    assert not failed(torch.OutOfMemoryError("CUDA out of memory")).process_spoilt
    assert not failed(OSError(errno.EIO, "input/output error")).process_spoilt


@pytest.mark.parametrize(("free", "failure"), [(1, FailureClass.OUT_OF_MEMORY), (50, FailureClass.INFRASTRUCTURE)])
def test_cudnn_errors_are_put_down_to_memory_where_that_is_scarce(monkeypatch, free, failure):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, 100))
    message = failed(RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"))
    assert message.failure is failure
    assert message.process_spoilt == (failure is FailureClass.INFRASTRUCTURE)


def test_a_real_allocation_that_cannot_be_is_out_of_memory():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert failed(caught.value).failure is FailureClass.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("device", "trials", "cores", "workers"),
    [("cpu", 64, 2, 2), ("cpu", 3, 2, 3), ("cpu", 4, 2, 2), ("cpu", 1, 2, 2), ("cpu", 5, 4, 5), ("cuda:0", 9, 8, 1)],
)
def test_few_trials_more_than_cores_run_side_by_side(device, trials, cores, workers):
    assert choose_workers(device, trials, cores) == workers


@pytest.mark.parametrize(
    ("limits", "group", "found"),
    [
        ({"": "400000 100000"}, "/", 4),  # a container sees its own group as the top
        ({"a": "max 100000", "a/b": "150000 100000"}, "/a/b", 2),
        ({"a": "50000 100000", "a/b": "max 100000"}, "/a/b", 1),
        ({"a": "max 100000"}, "/a", None),
        ({}, "/nowhere", None),
        ({"a": "nonsense"}, "/a", None),
    ],
)
def test_the_share_of_a_container_bounds_the_cores(tmp_path, limits, group, found):
    for place, limit in limits.items():
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / "cpu.max").write_text(f"{limit}\n")
    assert quota(group, tmp_path) == found
