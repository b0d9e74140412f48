"""Count the operations that a GPU would launch, on a CPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class CountLaunches(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Count operations other than views by their names."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.launches: Counter[str] = Counter()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Count an operation, and run it."""
        result = func(*args, **(kwargs or {}))
        if func.namespace != "profiler" and not _is_view(func, args, result):
            self.launches[str(func.overloadpacket)] += 1
        return result


def _is_view(func: Any, args: tuple[Any, ...], result: Any) -> bool:
    """Return whether an operation only looks at the memory of its first argument, and launches nothing."""
    first = result[0] if isinstance(result, list | tuple) and result else result
    if func._schema.is_mutable or not args or not isinstance(args[0], Tensor) or not isinstance(first, Tensor):
        return False
    return first.untyped_storage().data_ptr() == args[0].untyped_storage().data_ptr()
