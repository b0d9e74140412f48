"""Refuse operations that would wait for a GPU, on a CPU."""

from __future__ import annotations

from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
WAITING_OPERATIONS = {aten._local_scalar_dense, aten.equal, aten.is_nonzero, aten.masked_select, aten.nonzero}
WAITING_METHODS = {
    *(torch.Tensor.__bool__, torch.Tensor.__float__, torch.Tensor.__int__, torch.Tensor.cpu, torch.Tensor.item),
    *(torch.Tensor.numpy, torch.Tensor.tolist),
}


class SynchronizationError(RuntimeError):
    """An operation would wait for the device."""


class RefuseWaitingOperations(TorchDispatchMode):
    """Raise SynchronizationError for operations whose result the host must know, as the size of a selection."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket in WAITING_OPERATIONS or selects_by_mask(func.overloadpacket, args):
            raise SynchronizationError(str(func))
        return func(*args, **(kwargs or {}))


class RefuseHostReads(TorchFunctionMode):
    """Raise SynchronizationError where a tensor is read on the host; on a CPU this may dispatch no operation."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in WAITING_METHODS:
            raise SynchronizationError(str(func))
        return func(*args, **(kwargs or {}))


@contextmanager
def refuse_waits():
    """Raise SynchronizationError for everything in the block that would wait for a GPU."""
    with RefuseWaitingOperations(), RefuseHostReads():
        yield


def selects_by_mask(operation, args):
    """Whether an operation selects values by a mask: their number must be known on the host."""
    if operation not in (aten.index, aten.index_put, aten.index_put_):
        return False
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
