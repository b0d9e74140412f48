"""Where compiled kernels may be used."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_are_enabled: ContextVar[bool] = ContextVar("are_kernels_enabled", default=True)


@cache
def are_kernels_installed() -> bool:
    """Return whether the extra `fast` is installed."""
    return importlib.util.find_spec("numba") is not None


def are_kernels_used() -> bool:
    """Return whether kernels are installed and not disabled."""
    return are_kernels_installed() and _are_enabled.get()


def list_kernel_package_versions() -> dict[str, str]:
    """Return the version of the package that compiles the kernels, by its name; empty where kernels are not used."""
    return {"numba": version("numba")} if are_kernels_used() else {}


@contextmanager
def use_torch_instead_of_kernels() -> Iterator[None]:
    """Compute everything with torch in this context."""
    token = _are_enabled.set(False)
    try:
        yield
    finally:
        _are_enabled.reset(token)


def can_kernels_read(*tensors: Tensor | None) -> bool:
    """Return whether kernels are installed and can read these tensors.

    These are contiguous, in single precision, on CPU, and no gradient is computed.
    """
    return are_kernels_used() and all(
        tensor is not None
        and tensor.dtype == torch.float32
        and tensor.device.type == "cpu"
        and tensor.is_contiguous()
        and not (tensor.requires_grad and torch.is_grad_enabled())
        for tensor in tensors
    )


def flat_array(tensor: Tensor) -> NDArray[Any]:
    """Return the memory of a contiguous tensor as a flat array, without a copy."""
    array: NDArray[Any] = tensor.detach().numpy().reshape(-1)
    return array


def make_index_pair_array(pairs: tuple[tuple[int, int], ...]) -> NDArray[np.int64]:
    """Return pairs of indices, (pairs, 2)."""
    return np.array(pairs, np.int64).reshape(-1, 2)
