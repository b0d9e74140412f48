"""Full single precision on GPUs, where products may otherwise be taken in TF32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

_IEEE = "ieee"
_T = TypeVar("_T")


@contextmanager
def full_precision() -> Iterator[None]:
    """While this context is open, matrix products, convolutions and recurrent layers use no TF32, nor bfloat16 on CPU.

    Since version 2.9 torch has a setting for each of them beside the older flags, and reading a flag raises an error
    where the two disagree. Both are set here, so that a network may read either, and both get their values back.
    """
    cudnn: Any = torch.backends.cudnn
    mkldnn: Any = torch.backends.mkldnn
    settings = [torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn, mkldnn.matmul, mkldnn.conv, mkldnn.rnn]
    before = [setting.fp32_precision for setting in settings]
    products = _older_flag(torch.get_float32_matmul_precision)
    convolutions = _older_flag(lambda: torch.backends.cudnn.allow_tf32)
    torch.set_float32_matmul_precision("highest")
    cudnn.allow_tf32 = False
    for setting in settings:
        setting.fp32_precision = _IEEE
    try:
        yield
    finally:
        if products is not None:
            torch.set_float32_matmul_precision(products)
        if convolutions is not None:
            cudnn.allow_tf32 = convolutions
        for setting, value in zip(settings, before, strict=True):
            setting.fp32_precision = value


def _older_flag(read: Callable[[], _T]) -> _T | None:
    """A flag; None where it disagrees with the newer settings and cannot be read."""
    try:
        return read()
    except RuntimeError:
        return None
