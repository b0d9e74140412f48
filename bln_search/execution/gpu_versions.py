"""What results on a GPU depend on: versions of CUDA, cuDNN and the driver, and the GPU itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

from bln_search.execution.devices import is_gpu

_DRIVER_VERSION_FILE = Path("/proc/driver/nvidia/version")


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
