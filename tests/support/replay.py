"""A record of tensor operations that runs on a CPU as a CUDA graph runs on a GPU: same operations, same memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class RecordOperations(TorchDispatchMode):
    """Runs and records operations. `replay` runs them again: numbers of Python are those of the recording."""

    def __init__(self):
        super().__init__()
        self._operations = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self._operations.append((func, args, kwargs or {}, result))
        return result

    @torch.no_grad()
    def replay(self):
        for func, args, kwargs, result in self._operations:
            if func._schema.is_mutable:
                func(*args, **kwargs)
                continue
            if not self._is_view(args, result):
                for old, new in zip(_tensors(result), _tensors(func(*args, **kwargs)), strict=True):
                    old.copy_(new)

    @staticmethod
    def _is_view(args: tuple[Any, ...], result: Any) -> bool:
        inputs = {tensor.untyped_storage().data_ptr() for tensor in _tensors(args)}
        return any(tensor.untyped_storage().data_ptr() in inputs for tensor in _tensors(result) if tensor.numel())


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]
