"""Full single precision on GPUs, where torch may otherwise compute products in TF32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

_IEEE = "ieee"
_T = TypeVar("_T")


@contextmanager
def disable_reduced_precision() -> Iterator[None]:
    """Disable TF32 on GPU and bfloat16 on CPU for matrix products, convolutions and recurrent layers in this context.

    Since version 2.9 torch has one setting for each of them beside the older flags, and reading a flag raises an error
    where the two disagree. This function sets both, so that a network may read either, and restores both.
    """
    cudnn: Any = torch.backends.cudnn
    settings = list(_precision_settings().values())
    saved = [setting.fp32_precision for setting in settings]
    matmul_precision = _read_flag_unless_inconsistent(torch.get_float32_matmul_precision)
    allow_tf32 = _read_flag_unless_inconsistent(lambda: torch.backends.cudnn.allow_tf32)
    torch.set_float32_matmul_precision("highest")
    cudnn.allow_tf32 = False
    for setting in settings:
        setting.fp32_precision = _IEEE
    try:
        yield
    finally:
        if matmul_precision is not None:
            torch.set_float32_matmul_precision(matmul_precision)
        if allow_tf32 is not None:
            cudnn.allow_tf32 = allow_tf32
        for setting, value in zip(settings, saved, strict=True):
            setting.fp32_precision = value


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
