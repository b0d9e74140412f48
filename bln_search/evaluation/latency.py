"""Latency of a network under each configuration."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

import torch
from torch import nn

from bln_search.data.inputs import Inputs
from bln_search.evaluation.row_evaluator import use_row_in_all_layers
from bln_search.norms.network.layers import evaluation_mode
from bln_search.norms.row_batching.row_tensor import InferenceRow, Populations

_WARM_UP = 3


@dataclass(frozen=True)
class RowLatency:
    """Seconds for one mini-batch of `batch_size` examples: median and quartiles over `passes` forward passes."""

    row: InferenceRow
    batch_size: int
    seconds: float
    lower: float
    upper: float
    passes: int


@torch.inference_mode()
def measure_latency_per_row(
    network: nn.Module,
    mini_batch: Inputs,
    rows: Sequence[InferenceRow],
    populations: Populations,
    *,
    passes: int = 31,
) -> list[RowLatency]:
    """Time plain forward passes of `mini_batch` under each of `rows`.

    The rows alternate, so that other load of the machine affects all of them equally.

    Args:
        network: the network.
        mini_batch: inputs of one mini-batch.
        rows: the rows.
        populations: population values of each layer under each estimate.
        passes: number of timed passes of each row.
    """
    seconds: list[list[float]] = [[] for _ in rows]
    with evaluation_mode(network):
        for turn in range(_WARM_UP + passes):
            for index, row in enumerate(rows):
                with use_row_in_all_layers(row, populations):
                    start = time.perf_counter()
                    network(mini_batch)
                    if mini_batch.device.type == "cuda":
                        torch.cuda.synchronize(mini_batch.device)
                    elapsed = time.perf_counter() - start
                if turn >= _WARM_UP:
                    seconds[index].append(elapsed)
    latencies = []
    for row, times in zip(rows, seconds, strict=True):
        lower, _, upper = quantiles(times, n=4)
        latencies.append(RowLatency(row, len(mini_batch), median(times), lower, upper, passes))
    return latencies
