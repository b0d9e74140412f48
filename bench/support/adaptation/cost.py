"""Cost of arms: a mini-batch over that of a plain pass, one call over separate calls, memory of a long stream."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

import bln_search
from bench.support.adaptation.runs import POPULATION
from bench.support.adaptation.sections import METHODS, MINI_BATCH, PLAIN
from bench.support.adaptation.stream_data import StreamImages
from bench.support.reporting import run_in_process, spread
from bln_search.api.streams.ranked import RankedStreams

CONDITION = "gaussian_noise"
BATCH = 64

Arm = dict[str, Any]


def measure_cost(network: nn.Module, images: StreamImages, *, batches: int, pairs: int) -> dict[str, Any]:
    """Return times as ratios within one run, and the growth of the peak memory with the length of the stream.

    Args:
        network: With normalization layers of torch.
        images: Of the streams.
        batches: Mini-batches of a stream.
        pairs: Number of repetitions.
    """
    arms = [*PLAIN, *METHODS]
    converted = bln_search.convert(copy.deepcopy(network), method="same").eval()
    run = _make_run(converted, images, batches)
    run(arms)  # loads everything
    steps: dict[str, list[float]] = {arm["label"]: [] for arm in METHODS}
    ratios = []
    for _ in range(pairs):
        plain = {summary.arm: summary.seconds_per_batch for summary in run([PLAIN[1]]).arms}[MINI_BATCH]
        start = time.perf_counter()
        together = run(arms)
        in_one_call = time.perf_counter() - start
        start = time.perf_counter()
        for arm in arms:
            alone = run([arm])
            if arm["label"] in steps:
                steps[arm["label"]].append(alone.arms[0].seconds_per_batch / plain)
        ratios.append(in_one_call / (time.perf_counter() - start))
        del together
    return {
        "step_versus_plain": {label: spread(values) for label, values in steps.items()},
        "one_call_over_separate_calls": spread(ratios),
        "memory": {
            str(length): run_in_process("bench.support.adaptation.memory", str(length))[1]
            for length in (batches, 4 * batches)
        },
        "batches": batches,
        "batch_size": BATCH,
        "pairs": pairs,
        "threads": torch.get_num_threads(),
    }


def _make_run(network: nn.Module, images: StreamImages, batches: int) -> Callable[[Sequence[Arm]], RankedStreams]:
    training, stream = images.training(BATCH), images.conditions(BATCH * batches, [CONDITION])

    def run(arms: Sequence[Arm]) -> RankedStreams:
        return bln_search.evaluate_streams(
            network,
            training,
            stream,
            adapt=arms,
            population=POPULATION,
            batch_size=BATCH,
            orders=1,
            progress=False,
        )

    return run
