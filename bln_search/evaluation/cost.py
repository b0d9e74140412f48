"""What a network costs at inference."""

from __future__ import annotations

import time
from statistics import median

import torch
from torch import Tensor, nn

from bln_search.norms.network_layers import evaluation_mode, find_norms, mini_batch_statistics

_PASSES = 11


def count_weights(network: nn.Module) -> int:
    """Trained numbers."""
    return sum(parameter.numel() for parameter in network.parameters())


@torch.inference_mode()
def inference_seconds(network: nn.Module, mini_batch: Tensor) -> float:
    """Seconds for a thousand examples: the median of passes of one mini-batch, every statistic computed from it.

    With one thread on CPU only while the core works on it, as other trials may share the core; else from start to end.
    """
    one_core = mini_batch.device.type == "cpu" and torch.get_num_threads() == 1
    clock = time.thread_time if one_core else time.perf_counter
    seconds = []
    with evaluation_mode(network), mini_batch_statistics(find_norms(network).values()):
        for _ in range(_PASSES):
            start = clock()
            network(mini_batch)
            if mini_batch.is_cuda:
                torch.cuda.synchronize(mini_batch.device)
            seconds.append(clock() - start)
    return median(seconds[1:]) * 1000 / len(mini_batch)
