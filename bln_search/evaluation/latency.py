"""How long a network takes under each configuration."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

import torch
from torch import Tensor, nn

from bln_search.evaluation.row_evaluator import configured
from bln_search.norms.network_layers import evaluation_mode
from bln_search.norms.row_tensor import Populations, Row

_WARM_UP = 3


@dataclass(frozen=True)
class Latency:
    """Seconds for one mini-batch of `batch_size` examples: the median of `passes`, and its quartiles."""

    row: Row
    batch_size: int
    seconds: float
    lower: float
    upper: float
    passes: int


@torch.inference_mode()
def measure_latency(
    network: nn.Module, mini_batch: Tensor, rows: Sequence[Row], populations: Populations, *, passes: int = 31
) -> list[Latency]:
    """Time a plain forward pass of `mini_batch` under each of `rows`.

    Rows take turns, so that whatever else the machine does meanwhile falls on all of them alike.
    """
    seconds: list[list[float]] = [[] for _ in rows]
    with evaluation_mode(network):
        for turn in range(_WARM_UP + passes):
            for place, row in enumerate(rows):
                with configured(row, populations):
                    start = time.perf_counter()
                    network(mini_batch)
                    if mini_batch.is_cuda:
                        torch.cuda.synchronize(mini_batch.device)
                    taken = time.perf_counter() - start
                if turn >= _WARM_UP:
                    seconds[place].append(taken)
    found = []
    for row, times in zip(rows, seconds, strict=True):
        lower, _, upper = quantiles(times, n=4)
        found.append(Latency(row, len(mini_batch), median(times), lower, upper, passes))
    return found
