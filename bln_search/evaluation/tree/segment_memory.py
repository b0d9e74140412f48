"""Memory of the segments of a network, measured on one mini-batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from bln_search.evaluation.tree.graph.segments import SegmentedNetwork
from bln_search.evaluation.tree.graph.shape_values import ScalesWithBatch, batch_scaling_flags, is_shape_value
from bln_search.evaluation.tree.graph.tracing import NotTraceableError
from bln_search.norms import Normalization
from bln_search.norms.network.layers import use_training_sources_in_evaluation

_FASTEST_BYTES = {"cpu": 28 * 2**20, "cuda": 256 * 2**20}
"""Bytes of a chunk at which a traversal is fastest: on CPU what caches and the allocator reuse well."""


def choose_chunk_bytes(memory_limit: int, device: torch.device) -> int:
    """Return the bytes of a chunk: the fastest size, at most `memory_limit`."""
    return min(memory_limit, _FASTEST_BYTES.get(device.type, memory_limit))


@dataclass(frozen=True)
class MemoryOfAllSegments:
    """Memory of the segments of a network.

    Attributes:
        path_bytes: for each segment, bytes of the largest tensor that it computes after its layer, for one mini-batch.
        scales_with_batch: for each output of each segment, whether it is a number that grows with the number of
            examples.
    """

    path_bytes: tuple[int, ...]
    scales_with_batch: tuple[tuple[ScalesWithBatch, ...], ...]


@torch.no_grad()
def measure_memory_of_all_segments(network: SegmentedNetwork, mini_batch: Tensor) -> MemoryOfAllSegments:
    """Measure the segments by a forward pass of one mini-batch.

    Where segments pass numbers on, a second pass with twice as many examples shows which of them scale.

    Raises:
        NotTraceableError: a number neither doubles nor stays the same with twice as many examples.
    """
    largest, outputs = _measure_bytes_and_outputs(network, mini_batch)
    if not any(is_shape_value(value) for values in outputs for value in values):
        return MemoryOfAllSegments(largest, tuple((False,) * len(values) for values in outputs))
    _, doubled_outputs = _measure_bytes_and_outputs(network, torch.cat([mini_batch, mini_batch]))
    try:
        flags = [
            tuple(
                is_shape_value(value) and batch_scaling_flags(value, doubled_value)
                for value, doubled_value in zip(values, doubled_values, strict=True)
            )
            for values, doubled_values in zip(outputs, doubled_outputs, strict=True)
        ]
    except ValueError as error:
        raise NotTraceableError(f"a number that this network reads from a shape cannot be traced: {error}") from error
    return MemoryOfAllSegments(largest, tuple(flags))


def _measure_bytes_and_outputs(
    network: SegmentedNetwork, mini_batch: Tensor
) -> tuple[tuple[int, ...], list[tuple[Any, ...]]]:
    largest, outputs = [], []
    values: tuple[Any, ...] = (mini_batch.clone(),)
    with use_training_sources_in_evaluation(network.layers):
        for segment in network.segments:
            interpreter = _MeasuringInterpreter(segment)
            values = interpreter.run(*values)
            largest.append(max(interpreter.largest, 1))
            outputs.append(values)
    return tuple(largest), outputs


class _MeasuringInterpreter(fx.Interpreter):
    def __init__(self, segment: Any) -> None:
        super().__init__(segment)
        self.largest = 0

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        is_layer = n.op == "call_module" and isinstance(self.submodules.get(str(n.target)), Normalization)
        if isinstance(value, Tensor) and n.op not in ("placeholder", "get_attr", "output") and not is_layer:
            self.largest = max(self.largest, value.numel() * value.element_size())
        return value
