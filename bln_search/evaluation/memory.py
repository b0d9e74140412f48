"""How many mini-batches and rows fit a memory bound."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.models.recurrent import RecurrentLayer
from bln_search.norms import Normalization
from bln_search.norms.network_layers import find_norms, mini_batch_statistics

MEMORY_LIMIT = 256 * 2**20
"""Default bound on one activation tensor of all rows, in bytes. A few such tensors live at once."""

_FASTEST = {"cpu": 16 * 2**20, "cuda": 512 * 2**20}
"""Bytes of the largest activation at which a pass is fastest: on CPU what caches and the allocator reuse well."""

_REUSED_BY_MALLOC = 31 * 2**20


@dataclass(frozen=True)
class Chunking:
    """groups: mini-batches evaluated together. rows: rows evaluated together."""

    groups: int
    rows: int


def choose_chunking(network: nn.Module, mini_batch: Tensor, rows: int, memory_limit: int) -> Chunking:
    """Measure the activations of one plain forward pass of `mini_batch` and choose what fits `memory_limit`."""
    shared, fanned = _largest_activations(network, mini_batch)
    fastest = min(memory_limit, _FASTEST.get(mini_batch.device.type, MEMORY_LIMIT))
    if fanned * rows > memory_limit:
        return Chunking(groups=1, rows=max(1, memory_limit // fanned))
    return Chunking(groups=max(1, fastest // max(fanned * rows, shared)), rows=rows)


@cache
def keep_freed_memory() -> None:
    """Make glibc reuse freed buffers, instead of returning them to the system at a page fault for each page; once.

    Its threshold for that follows the largest block freed so far, up to 32 MiB; so one block is taken and freed.
    """
    torch.empty(_REUSED_BY_MALLOC, dtype=torch.uint8).fill_(0)


def give_back_memory() -> None:
    """Return what was freed to the system, where the C library can: a worker's heap otherwise stays at its largest.

    What torch keeps of a GPU goes back, too, for other processes on it.
    """
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _largest_activations(network: nn.Module, mini_batch: Tensor) -> tuple[int, int]:
    """Bytes of the largest output of a module in front of the first normalization layer, and from there on."""
    largest = [1, 1]
    fanned = False

    def look(module: nn.Module, _inputs: Any, output: Any) -> None:
        nonlocal fanned
        fanned = fanned or isinstance(module, Normalization)
        if isinstance(output, Tensor):
            inside = module.gates if isinstance(module, RecurrentLayer) else 1  # the input's share of every gate
            largest[fanned] = max(largest[fanned], inside * output.numel() * output.element_size())

    modules = [module for module in network.modules() if not isinstance(module, torch.jit.ScriptModule)]
    hooks = [module.register_forward_hook(look) for module in modules]
    try:
        with mini_batch_statistics(find_norms(network).values()):
            network(mini_batch.clone())
    finally:
        for hook in hooks:
            hook.remove()
    return largest[0], largest[1]
