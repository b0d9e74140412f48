"""The GPU of this process: the memory that it may use and has used, and the versions on which results depend."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

from bln_search.execution.devices import is_gpu

_DRIVER_VERSION_FILE = Path("/proc/driver/nvidia/version")


def limit_gpu_memory(fraction: float, *, alone: bool) -> None:
    """Limit the memory that this process allocates on its GPU; without a limit if it is `alone` there.

    Args:
        fraction: Fraction of the memory; 0, or 1 and more, for no limit.
        alone: Whether no other trial of the run uses the GPU now.
    """
    if 0 < fraction < 1:
        torch.cuda.set_per_process_memory_fraction(1.0 if alone else fraction)


def reset_peak_memory(device: str | None) -> None:
    """Count the peak of allocated memory from now on; None for no device."""
    if device is not None and is_gpu(device):
        torch.cuda.reset_peak_memory_stats(device)


def read_peak_memory(device: str | None) -> int | None:
    """Largest number of bytes that tensors occupied on a GPU since `reset_peak_memory`; None for another device."""
    return torch.cuda.max_memory_allocated(device) if device is not None and is_gpu(device) else None


def describe_gpu(device: str) -> dict[str, str | int]:
    """Versions of CUDA, cuDNN and the driver, compute capability and UUID of a GPU; empty for another device."""
    if not is_gpu(device):
        return {}
    properties: Any = torch.cuda.get_device_properties(device)
    values: dict[str, str | int | None] = {
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "driver": find_driver_version(),
        "capability": f"{properties.major}.{properties.minor}",
        "gpu_uuid": str(getattr(properties, "uuid", "")) or None,
    }
    return {name: value for name, value in values.items() if value is not None}


def find_driver_version(file: Path = _DRIVER_VERSION_FILE) -> str | None:
    """The version of NVIDIA's kernel driver; None if it is not known. file: where the driver writes its version."""
    try:
        first_line = file.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
    except OSError:
        return None
    match = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", first_line)
    return None if match is None else match[1]
