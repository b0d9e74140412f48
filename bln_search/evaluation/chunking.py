"""Numbers of mini-batches and rows that fit a memory limit."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.data.inputs import Inputs
from bln_search.evaluation.isolated_passes import restored_network
from bln_search.models.pooling import AveragePool2
from bln_search.models.recurrent import RecurrentLayer
from bln_search.norms import Normalization
from bln_search.norms.network.layers import get_norms_by_name, use_training_sources_in_evaluation

MEMORY_LIMIT = 256 * 2**20
"""Default limit on one activation tensor of all rows, in bytes. A few such tensors are alive at once."""

_FASTEST_BYTES = {"cpu": 64 * 2**20, "cuda": 512 * 2**20}
"""Bytes of the largest activation from which on a pass gains little; it then takes more memory."""

_MALLOC_OPTIONS = {
    "MALLOC_MMAP_THRESHOLD_": (-3, 32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": (-1, 2**30),
    "MALLOC_TOP_PAD_": (-2, 64 * 2**20),
}
"""Options of glibc by their environment variables, with their numbers and bytes: the size from which a freed block is
returned to the system, that from which the end of the heap is, and by how much the heap grows. The heap of a thread
has parts of 64 MiB; with that growth, parts that become free are kept."""


@dataclass(frozen=True)
class ChunkSizes:
    """Numbers of mini-batches (`groups`) and of rows that are evaluated together."""

    groups: int
    rows: int


def choose_chunk_sizes(
    network: nn.Module, mini_batch: Inputs, rows: int, memory_limit: int, *, expand_inputs: bool = False
) -> ChunkSizes:
    """Measure the activations of a plain forward pass and choose a chunking that fits `memory_limit`.

    Args:
        network: in evaluation mode.
        mini_batch: inputs of one mini-batch.
        rows: number of rows.
        memory_limit: bytes of the largest activation.
        expand_inputs: whether all activations hold all rows, also those before the first normalization layer.
    """
    shared, expanded, stored = _largest_activation_bytes(network, mini_batch)
    expanded, stored = (max(shared, expanded),) * 2 if expand_inputs else (expanded, stored)
    fastest = min(memory_limit, _FASTEST_BYTES.get(mini_batch.device.type, MEMORY_LIMIT))
    if expanded * rows > memory_limit:
        return ChunkSizes(groups=1, rows=max(1, memory_limit // expanded))
    return ChunkSizes(groups=max(1, fastest // max(stored * rows, shared)), rows=rows)


@cache
def retain_freed_memory() -> None:
    """Make glibc keep freed buffers for reuse, which avoids page faults; effective once for the process.

    `release_freed_memory` returns them to the system. Options that environment variables set, and other C libraries,
    are left as they are.
    """
    with suppress(AttributeError, OSError, TypeError):  # TypeError: Windows
        set_option = ctypes.CDLL(None).mallopt
        for variable, (option, value) in _MALLOC_OPTIONS.items():
            if variable not in os.environ:
                set_option(option, value)


def release_freed_memory() -> None:
    """Return freed memory to the system, where the C library supports it; a heap otherwise keeps its maximal size.

    Torch's cached GPU memory is released too, for other processes.
    """
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _largest_activation_bytes(network: nn.Module, mini_batch: Inputs) -> tuple[int, int, int]:
    """Return bytes of the largest module outputs: before the first normalization layer, from there on, and stored.

    Those of a convolution and its activation function between the first normalization layer and an average pooling are
    not stored for all rows.
    """
    shared, expanded = 1, [1]
    modules_called: list[nn.Module | None] = [None]

    def record_output_bytes(module: nn.Module, _inputs: Any, output: Any) -> None:
        nonlocal shared
        if not isinstance(output, Tensor):
            return
        factor = module.num_gates if isinstance(module, RecurrentLayer) else 1  # input projections of all gates
        size = factor * output.numel() * output.element_size()
        if len(modules_called) == 1 and not isinstance(module, Normalization):
            shared = max(shared, size)
            return
        modules_called.append(module)
        expanded.append(size)

    modules = [module for module in network.modules() if not isinstance(module, torch.jit.ScriptModule)]
    hooks = [module.register_forward_hook(record_output_bytes) for module in modules]
    try:
        with restored_network(network), use_training_sources_in_evaluation(get_norms_by_name(network).values()):
            network(mini_batch.clone())
    finally:
        for hook in hooks:
            hook.remove()
    stored = expanded
    match modules_called[2:5]:
        case [nn.Conv2d(), nn.Tanh() | nn.ReLU() | nn.GELU(), AveragePool2() | nn.AvgPool2d()] if (
            mini_batch.device.type == "cpu"
        ):
            stored = [*expanded[:2], *expanded[4:]]
    return shared, max(expanded), max(stored)
