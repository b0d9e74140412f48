"""The memory of a GPU that this process may use, and has used."""

from __future__ import annotations

import torch

from bln_search.execution.devices import is_gpu


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
