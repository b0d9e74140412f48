"""What a network costs at inference."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn

from bln_search import BLN
from bln_search.evaluation.cost import inference_seconds


class Waits(nn.Module):
    """Does nothing for a fiftieth of a second, as a network does whose core another trial has."""

    def __init__(self):
        super().__init__()
        self.norm = BLN(3)

    def forward(self, x):
        time.sleep(0.02)
        return self.norm(x)


@pytest.mark.parametrize("threads", [1, 2])
def test_one_thread_is_timed_by_its_cpu_time(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        seconds = inference_seconds(Waits(), torch.zeros(10, 3))
    finally:
        torch.set_num_threads(before)
    assert (seconds < 1) == (threads == 1)  # of a thousand examples, a hundred such passes: 2 s
    assert seconds > 0
