"""The precision of single-precision products: on GPUs torch may compute them in TF32, on some CPUs in bfloat16."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from typing import Any, TypeVar

import torch

_T = TypeVar("_T")


class Float32Precision(StrEnum):
    """Precision of matrix products, convolutions and recurrent layers of single-precision tensors.

    Members:
        IEEE: Full single precision everywhere.
        TF32: TF32 on GPUs, full single precision on CPUs.
    """

    IEEE = "ieee"
    TF32 = "tf32"


def use_full_float32_precision() -> AbstractContextManager[None]:
    """Compute in full single precision in this context; see `use_float32_precision`."""
    return use_float32_precision(Float32Precision.IEEE)


@contextmanager
def use_float32_precision(precision: Float32Precision) -> Iterator[None]:
    """Compute products of single-precision tensors with this precision in this context.

    Since version 2.9 torch has one setting for each of them beside the older flags, and reading a flag raises an error
    where the two disagree. This function sets both, so that a network may read either, and restores both.
    """
    cudnn: Any = torch.backends.cudnn
    settings = _precision_settings()
    is_tf32 = precision is Float32Precision.TF32
    saved = {name: setting.fp32_precision for name, setting in settings.items()}
    matmul_precision = _read_flag_unless_inconsistent(torch.get_float32_matmul_precision)
    allow_tf32 = _read_flag_unless_inconsistent(lambda: torch.backends.cudnn.allow_tf32)
    torch.set_float32_matmul_precision("high" if is_tf32 else "highest")
    cudnn.allow_tf32 = is_tf32
    for name, setting in settings.items():
        setting.fp32_precision = Float32Precision.IEEE.value if name.startswith("mkldnn") else precision.value
    try:
        yield
    finally:
        if matmul_precision is not None:
            torch.set_float32_matmul_precision(matmul_precision)
        if allow_tf32 is not None:
            cudnn.allow_tf32 = allow_tf32
        for name, setting in settings.items():
            setting.fp32_precision = saved[name]


def read_precision_flags() -> dict[str, str]:
    """The present precision of single-precision products, by kind of operation: `ieee`, `tf32`, `bf16`, or `none`."""
    return {name: str(setting.fp32_precision) for name, setting in _precision_settings().items()}


def _precision_settings() -> dict[str, Any]:
    cudnn: Any = torch.backends.cudnn
    mkldnn: Any = torch.backends.mkldnn
    return {
        "cuda.matmul": torch.backends.cuda.matmul,
        "cudnn.conv": cudnn.conv,
        "cudnn.rnn": cudnn.rnn,
        "mkldnn.matmul": mkldnn.matmul,
        "mkldnn.conv": mkldnn.conv,
        "mkldnn.rnn": mkldnn.rnn,
    }


def _read_flag_unless_inconsistent(read: Callable[[], _T]) -> _T | None:
    """Return the value of a flag; None where it disagrees with the newer settings and cannot be read."""
    try:
        return read()
    except RuntimeError:
        return None
