"""Reproducible computation: seeds, and the states of the global random number generators of torch.

Those of Python and NumPy are not among them: no training draws from them, and no seed of a trial sets them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from bln_search.norms.precision import use_full_float32_precision


@contextmanager
def reproducible_torch(seed: int, *, threads: int | None = None) -> Iterator[None]:
    """Seed torch's generators and allow only deterministic kernels in this context.

    In this mode torch would fill new buffers with a constant. That is disabled, because this package writes every
    buffer before it reads it. `torch.use_deterministic_algorithms` would load torch's compiler, which takes seconds in
    each process; a compiled network sets it itself.

    Args:
        seed: of torch's generators.
        threads: number of threads of a CPU operation, on which the rounding of sums depends; None for no change.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    debug_mode, num_threads = torch.get_deterministic_debug_mode(), torch.get_num_threads()
    filled_buffers = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.manual_seed(seed)
    torch.set_deterministic_debug_mode("error")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        with use_full_float32_precision():  # no TF32 on a GPU
            yield
    finally:
        torch.set_deterministic_debug_mode(debug_mode)
        torch.utils.deterministic.fill_uninitialized_memory = filled_buffers  # type: ignore[attr-defined]
        torch.set_num_threads(num_threads)


def read_global_generator_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states of the generators that a training on `device` draws from, by kind of device."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_global_generator_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore the states that `read_global_generator_states` returned."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)
