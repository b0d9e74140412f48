"""Count the operations that a GPU would launch, on a CPU, and refuse those that would wait for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
_SYNCHRONIZING_OPERATIONS = {
    aten._local_scalar_dense,
    aten.equal,
    aten.is_nonzero,
    aten.masked_select,
    aten.nonzero,
}
_SYNCHRONIZING_METHODS = {
    torch.Tensor.__bool__,
    torch.Tensor.__float__,
    torch.Tensor.__int__,
    torch.Tensor.cpu,
    torch.Tensor.item,
    torch.Tensor.numpy,
    torch.Tensor.tolist,
}


class SynchronizationError(RuntimeError):
    """An operation would wait for the device."""


class CountLaunches(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Count operations other than views by their names.

    Args:
        refuses_waits: Raise SynchronizationError for operations that would wait for the device.
    """

    def __init__(self, *, refuses_waits: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.launches: Counter[str] = Counter()
        self._refuses_waits = refuses_waits

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Count an operation, and run it."""
        operation = func.overloadpacket
        if self._refuses_waits and (operation in _SYNCHRONIZING_OPERATIONS or _selects_by_mask(operation, args)):
            raise SynchronizationError(str(func))
        result = func(*args, **(kwargs or {}))
        if func.namespace != "profiler" and not _is_view(func, args, result):
            self.launches[str(operation)] += 1
        return result


class RefuseHostReads(TorchFunctionMode):
    """Raise SynchronizationError where a tensor is read on the host; on a CPU this may dispatch no operation."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run a function that reads no tensor."""
        if func in _SYNCHRONIZING_METHODS:
            raise SynchronizationError(str(func))
        return func(*args, **(kwargs or {}))


def _is_view(func: Any, args: tuple[Any, ...], result: Any) -> bool:
    """Return whether an operation only looks at the memory of its first argument, and launches nothing."""
    first = result[0] if isinstance(result, list | tuple) and result else result
    if func._schema.is_mutable or not args or not isinstance(args[0], Tensor) or not isinstance(first, Tensor):
        return False
    return first.untyped_storage().data_ptr() == args[0].untyped_storage().data_ptr()


def _selects_by_mask(operation: Any, args: tuple[Any, ...]) -> bool:
    """Return whether an operation selects values by a mask: their number must be known on the host."""
    if operation not in (aten.index, aten.index_put, aten.index_put_):
        return False
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
