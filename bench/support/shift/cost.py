"""Time of one call with conditions, mini-batch sizes and blends against separate calls, for LeNet with BLN layers."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import torch
from torch import Tensor

import bln_search
from bench.support.reporting import spread
from bln_search.models import LeNet
from bln_search.norms import BLN

CONDITIONS = ("clean", "noise", "contrast")
BATCH_SIZES = (4, 16, 64, 100)
BLENDS = (0.1, 0.5, 0.9)
TRAINING_BATCH = 25

Batches = list[tuple[Tensor, Tensor]]


def random_batches(examples: int, seed: int, size: int = TRAINING_BATCH) -> Batches:
    """Random images of the shape of CIFAR-10, with random classes."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(examples, 3, 32, 32, generator=generator)
    labels = torch.randint(10, (examples,), generator=generator)
    return list(zip(torch.split(images, size), torch.split(labels, size), strict=True))


def measure_cost(examples: int, pairs: int) -> dict[str, Any]:
    """Time both in turn.

    Args:
        examples: Number of examples of each condition, and of the population.
        pairs: Number of repetitions.

    Returns:
        `one_call` in seconds, and `separate_calls`: the time of one call for each condition, size and blend, divided by
        that of one call; both over the pairs.
    """
    torch.manual_seed(0)
    network = LeNet((3, 32, 32), 10, lambda features: BLN(features, batch_size=TRAINING_BATCH))
    train = random_batches(examples, 0)
    validation = {name: random_batches(examples, seed) for seed, name in enumerate(CONDITIONS, start=1)}
    seconds, ratios = [], []
    for _ in range(pairs):
        start = time.perf_counter()
        bln_search.evaluate_configurations(network, train, validation, batch_sizes=BATCH_SIZES, blends=BLENDS)
        one_call = time.perf_counter() - start
        start = time.perf_counter()
        for name, size, blend in product(CONDITIONS, BATCH_SIZES, BLENDS):
            bln_search.evaluate_configurations(network, train, validation[name], batch_sizes=[size], blends=[blend])
        seconds.append(one_call)
        ratios.append((time.perf_counter() - start) / one_call)
    return {"one_call": spread(seconds), "separate_calls": spread(ratios), "examples": examples, "pairs": pairs}
