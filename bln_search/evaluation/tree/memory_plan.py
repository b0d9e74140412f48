"""How much of a network fits a memory bound, measured on one mini-batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from bln_search.evaluation.tree.segments import StagedNetwork
from bln_search.evaluation.tree.shape_values import Growing, growing, is_number
from bln_search.evaluation.tree.tracing import NotFollowedError
from bln_search.norms import Normalization
from bln_search.norms.network_layers import mini_batch_statistics

_FASTEST = {"cpu": 8 * 2**20, "cuda": 256 * 2**20}
"""Bytes of a chunk at which a walk is fastest: on CPU what the caches and the allocator reuse well."""


def chunk_limit(memory_limit: int, device: torch.device) -> int:
    """Bytes of a chunk: what is fastest, and no more than the bound."""
    return min(memory_limit, _FASTEST.get(device.type, memory_limit))


@dataclass(frozen=True)
class Sizes:
    """path_bytes: for each stage, bytes of the largest tensor of one mini-batch that it computes behind its layer.

    growing: for each value that is alive behind a stage, does it grow with the number of examples, if it is a number?
    """

    path_bytes: tuple[int, ...]
    growing: tuple[tuple[Growing, ...], ...]


@torch.no_grad()
def find_sizes(network: StagedNetwork, mini_batch: Tensor) -> Sizes:
    """Measured by a plain pass of one mini-batch, and where numbers are alive by another of twice as many examples.

    Raises NotFollowedError where a number neither doubles nor stays.
    """
    largest, once = _measured(network, mini_batch)
    if not any(is_number(value) for values in once for value in values):
        return Sizes(largest, tuple((False,) * len(values) for values in once))
    _, twice = _measured(network, torch.cat([mini_batch, mini_batch]))
    try:
        flags = [
            tuple(is_number(value) and growing(value, other) for value, other in zip(*pair, strict=True))
            for pair in zip(once, twice, strict=True)
        ]
    except ValueError as error:
        raise NotFollowedError(f"a number that this network reads from a shape cannot be followed: {error}") from error
    return Sizes(largest, tuple(flags))


def _measured(network: StagedNetwork, mini_batch: Tensor) -> tuple[tuple[int, ...], list[tuple[Any, ...]]]:
    """Bytes of the largest tensor of each stage, and what is alive behind each."""
    found, alive = [], []
    values: tuple[Any, ...] = (mini_batch.clone(),)
    with mini_batch_statistics(network.layers):
        for stage in network.stages:
            measuring = _Measuring(stage)
            values = measuring.run(*values)
            found.append(max(measuring.largest, 1))
            alive.append(values)
    return tuple(found), alive


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
