"""All 65,536 per-layer configurations of a LeNet in one tree traversal, against evaluating them one by one.

LeNet, CIFAR-10 shapes, mini-batches of 25, two threads. In one process: the traversal of every configuration, and
between its runs plain forward passes of configurations drawn at random, whose median stands for all of them. Equality
is checked in float64 and float32 on LeNet, an MLP and a residual network. Levels: the last layers free, one to four.
"""

from __future__ import annotations

import resource
import statistics
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from bench.enumerate import BATCH, prepared, timed
from bench.reporting import arguments, finish, spread
from bln_search.core.enums import Semantics
from bln_search.core.per_layer import ConfigurationSpace, PerLayerConfiguration
from bln_search.evaluation.batches import mini_batches
from bln_search.evaluation.tree.tree_evaluator import TreeEvaluator
from bln_search.evaluation.tree.verification import configured_layers, plain_pass_losses
from bln_search.norms.network_layers import evaluation_mode

SINGLES = 240
"""Configurations measured one by one."""


def evaluator(name: str, semantics: Semantics, dtype: torch.dtype, device: str, examples: int) -> TreeEvaluator:
    """Return a network with random weights, random data with the shape of CIFAR-10, and frozen population values."""
    network, inputs, targets, populations = prepared(name, semantics, dtype, device, examples)
    return TreeEvaluator(network, list(mini_batches(inputs, targets, BATCH)), populations)


@torch.inference_mode()
def single(tree: TreeEvaluator, configuration: PerLayerConfiguration) -> float:
    """Return the mean loss under one configuration by a plain loop over the mini-batches."""
    total = torch.zeros((), dtype=torch.float64, device=tree.batches[0][0].device)
    with (
        evaluation_mode(tree.network),
        configured_layers(tree.segmented, configuration, tree.populations, tree.options.estimate),
    ):
        for inputs, targets in tree.batches:
            total += F.cross_entropy(tree.network(inputs), targets, reduction="sum")
    return total.item() / tree.examples


def largest_difference(dtype: torch.dtype, device: str, count: int) -> float:
    """Return the largest relative difference of mean losses, traversal against plain passes, over all networks."""
    worst, draw = 0.0, np.random.default_rng(0)
    for name in ("lenet", "mlp", "residual"):
        for semantics in Semantics:
            tree = evaluator(name, semantics, dtype, device, 50)
            digits = np.stack([draw.integers(radix, size=count) for radix in tree.space.radices], 1).astype(np.uint8)
            for row, outcome in zip(digits, tree.outcomes(digits), strict=True):
                alone = float(plain_pass_losses(tree, tree.space.configuration(row), tree.batches).double().mean())
                worst = max(worst, abs(float(outcome.losses.mean(dtype="float64")) - alone) / abs(alone))
    return worst


def levels(tree: TreeEvaluator, device: str, runs: int) -> dict[str, dict[str, float]]:
    """Return seconds per configuration with the last layers free and the others at their first option."""
    choices, found = tree.space.choices, {}
    for free in range(1, len(choices) + 1):
        fixed = len(choices) - free
        part = (*(replace(choice, options=choice.options[:1]) for choice in choices[:fixed]), *choices[fixed:])
        space = ConfigurationSpace(tree.space.layers, part)
        fewer = TreeEvaluator(tree.network, tree.batches, tree.populations, space=space)
        timed(fewer.enumerate, device)
        found[str(free)] = spread([timed(fewer.enumerate, device) / space.size for _ in range(runs)])
        print(f"{free} levels, {space.size:6} configurations: {found[str(free)]['median'] * 1e6:9.1f} µs each")
    return found


def measured(semantics: Semantics, device: str, examples: int, runs: int) -> dict[str, Any]:
    """Measure traversals and single evaluations alternately."""
    tree = evaluator("lenet", semantics, torch.float32, device, examples)
    draw = np.random.default_rng(1)
    timed(tree.enumerate, device)
    timed(partial(single, tree, tree.space.configuration(tree.space.digits_at(0))), device)
    seconds, alone, speedups = [], [], []
    for _ in range(runs):
        seconds.append(timed(tree.enumerate, device))
        beside = []
        for _ in range(SINGLES // runs):
            configuration = tree.space.configuration(tree.space.digits_at(int(draw.integers(tree.space.size))))
            beside.append(timed(partial(single, tree, configuration), device))
        speedups.append(statistics.median(beside) * tree.space.size / seconds[-1])
        alone += beside
    result = {
        "seconds": spread(seconds),
        "seconds_of_one": spread(alone),
        "speedup": spread(speedups),
        "measured_one_by_one": len(alone),
    }
    print(f"{semantics:10} {result}")
    return result


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    torch.set_num_threads(2)
    device = options.device
    examples, runs, count = (250, 3, 40) if options.quick else (1_000, 6, 200)
    examples = 10_000 if device != "cpu" and not options.quick else examples
    result = {str(semantics): measured(semantics, device, examples, runs) for semantics in Semantics}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    differences = {str(dtype): largest_difference(dtype, device, count) for dtype in (torch.float64, torch.float32)}
    print(f"largest relative difference of mean losses: {differences}; peak memory {peak:.0f} MB")
    by_levels = levels(evaluator("lenet", Semantics.PAPER, torch.float32, device, examples), device, 3)
    finish(
        "per_layer" if device == "cpu" else "per_layer_gpu",
        {
            "speedup": min(one["speedup"]["median"] for one in result.values()),
            "configurations": 65_536,
            "seconds": max(one["seconds"]["median"] for one in result.values()),
            "peak_memory_mb": peak,
            "max_relative_difference": differences["torch.float32"],
            "max_relative_difference_float64": differences["torch.float64"],
            "by_semantics": result,
            "seconds_a_configuration_by_levels": by_levels,
            "examples": examples,
            "batch_size": BATCH,
            "runs": runs,
            "device": device,
        },
        save=options.save,
        device=device,
    )


if __name__ == "__main__":
    main()
