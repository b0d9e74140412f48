"""Inference seconds are CPU time with one thread, and wall time with several."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn

from bln_search import BLN
from bln_search.evaluation.timing import measure_inference_seconds_per_thousand


class Waiting(nn.Module):
    """Waits without CPU time, as a network does while another trial uses its core."""

    def __init__(self):
        super().__init__()
        self.norm = BLN(3)

    def forward(self, x):
        time.sleep(0.02)
        return self.norm(x)


@pytest.mark.parametrize("threads", [1, 2])
def test_one_thread_is_timed_by_its_cpu_time(threads):
    num_threads = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        seconds = measure_inference_seconds_per_thousand(Waiting(), torch.zeros(10, 3))
    finally:
        torch.set_num_threads(num_threads)
    assert (seconds < 1) == (threads == 1)  # wall time for a thousand examples: 100 passes of 0.02 s
    assert seconds > 0
