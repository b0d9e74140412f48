"""Cost of inference: number of parameters, and seconds of forward passes under each configuration."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

import torch
from torch import nn

from bln_search.data.inputs import Inputs
from bln_search.evaluation.row_evaluator import use_row_in_all_layers
from bln_search.norms.network.layers import evaluation_mode, get_norms_by_name, use_training_sources_in_evaluation
from bln_search.norms.row_batching.row_tensor import InferenceRow, Populations

_PASSES = 11
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


def count_parameters(network: nn.Module) -> int:
    """Return the number of parameters."""
    return sum(parameter.numel() for parameter in network.parameters())


@torch.inference_mode()
def measure_inference_seconds_per_thousand(network: nn.Module, mini_batch: Inputs) -> float:
    """Return seconds for a thousand examples: the median over forward passes with mini-batch statistics.

    With one thread on CPU it is thread time, because other trials may share the core; otherwise wall time.
    """
    is_single_thread = mini_batch.device.type == "cpu" and torch.get_num_threads() == 1
    clock = time.thread_time if is_single_thread else time.perf_counter
    layers = get_norms_by_name(network).values()
    with evaluation_mode(network), use_training_sources_in_evaluation(layers):
        seconds = [_time_forward_pass(network, mini_batch, clock) for _ in range(_PASSES)]
    return median(seconds[1:]) * 1000 / len(mini_batch)


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
        for _ in range(_WARM_UP + passes):
            for row, of_row in zip(rows, seconds, strict=True):
                with use_row_in_all_layers(row, populations):
                    of_row.append(_time_forward_pass(network, mini_batch, time.perf_counter))
    latencies = []
    for row, of_row in zip(rows, seconds, strict=True):
        lower, middle, upper = quantiles(of_row[_WARM_UP:], n=4)
        latencies.append(RowLatency(row, len(mini_batch), middle, lower, upper, passes))
    return latencies


def _time_forward_pass(network: nn.Module, mini_batch: Inputs, clock: Callable[[], float]) -> float:
    start = clock()
    network(mini_batch)
    if mini_batch.device.type == "cuda":
        torch.cuda.synchronize(mini_batch.device)
    return clock() - start
