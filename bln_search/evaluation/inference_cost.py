"""Inference cost of a network: number of parameters and seconds."""

from __future__ import annotations

import time
from statistics import median

import torch
from torch import nn

from bln_search.data.inputs import Inputs
from bln_search.norms.network.layers import evaluation_mode, get_norms_by_name, use_training_sources_in_evaluation

_PASSES = 11


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
    seconds = []
    layers = get_norms_by_name(network).values()
    with evaluation_mode(network), use_training_sources_in_evaluation(layers):
        for _ in range(_PASSES):
            start = clock()
            network(mini_batch)
            if mini_batch.device.type == "cuda":
                torch.cuda.synchronize(mini_batch.device)
            seconds.append(clock() - start)
    return median(seconds[1:]) * 1000 / len(mini_batch)
