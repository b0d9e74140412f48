"""How much of a network fits a memory bound, measured on one mini-batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from bln_search.evaluation.tree.stages import StagedNetwork
from bln_search.norms import Normalization
from bln_search.norms.finding import mini_batch_statistics

_FASTEST = {"cpu": 8 * 2**20, "cuda": 256 * 2**20}
"""Bytes of a chunk at which a walk is fastest: on CPU what the caches and the allocator reuse well."""


def chunk_limit(memory_limit: int, device: torch.device) -> int:
    """Bytes of a chunk: what is fastest, and no more than the bound."""
    return min(memory_limit, _FASTEST.get(device.type, memory_limit))


@torch.no_grad()
def path_bytes(network: StagedNetwork, mini_batch: Tensor) -> tuple[int, ...]:
    """For each stage, bytes of the largest tensor of one mini-batch that is computed in it behind the layer itself."""
    found = []
    values: tuple[Any, ...] = (mini_batch.clone(),)
    with mini_batch_statistics(network.layers):
        for stage in network.stages:
            measuring = _Measuring(stage)
            values = measuring.run(*values)
            found.append(max(measuring.largest, 1))
    return tuple(found)


class _Measuring(fx.Interpreter):
    """Runs a stage and looks at every tensor it computes."""

    def __init__(self, stage: Any) -> None:
        super().__init__(stage)
        self.largest = 0

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        is_layer = n.op == "call_module" and isinstance(self.submodules.get(str(n.target)), Normalization)
        if isinstance(value, Tensor) and n.op not in ("placeholder", "get_attr", "output") and not is_layer:
            self.largest = max(self.largest, value.numel() * value.element_size())
        return value
