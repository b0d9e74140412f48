"""All 65,536 per-layer configurations of a LeNet in one tree traversal, against evaluating them one by one.

LeNet, CIFAR-10 shapes, mini-batches of 25, two threads. In one process: the traversal of every configuration, and
between its runs plain forward passes of random configurations, whose median represents all configurations. Equality
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

from bench.enumerate import BATCH, prepare_network, time_call
from bench.support.reporting import finish, make_parser, spread
from bln_search.core.enums import Semantics
from bln_search.core.per_layer import ConfigurationSpace, PerLayerConfiguration
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.tree.tree_evaluator import TreePerLayerEvaluator
from bln_search.evaluation.tree.verification import compute_plain_pass_losses, use_per_layer_configuration
from bln_search.norms.network.layers import evaluation_mode

SINGLE_EVALUATIONS = 240
"""Configurations measured one by one."""


def make_evaluator(
    name: str, semantics: Semantics, dtype: torch.dtype, device: str, examples: int
) -> TreePerLayerEvaluator:
    """Return a network with random weights, random data with the shape of CIFAR-10, and frozen population values."""
    network, inputs, targets, populations = prepare_network(name, semantics, dtype, device, examples)
    return TreePerLayerEvaluator(network, list(iter_mini_batches_with_fillers(inputs, targets, BATCH)), populations)


@torch.inference_mode()
def measure_loss(tree: TreePerLayerEvaluator, configuration: PerLayerConfiguration) -> float:
    """Return the mean loss under one configuration by a plain loop over the mini-batches."""
    total = torch.zeros((), dtype=torch.float64, device=tree.batches[0][0].device)
    with (
        evaluation_mode(tree.network),
        use_per_layer_configuration(tree.segmented, configuration, tree.populations, tree.options.estimate),
    ):
        for inputs, targets in tree.batches:
            total += F.cross_entropy(tree.network(inputs), targets, reduction="sum")
    return total.item() / tree.num_examples


def largest_difference(dtype: torch.dtype, device: str, count: int) -> float:
    """Return the largest relative difference of mean losses, traversal against plain passes, over all networks."""
    largest, rng = 0.0, np.random.default_rng(0)
    for name in ("lenet", "mlp", "residual"):
        for semantics in Semantics:
            tree = make_evaluator(name, semantics, dtype, device, 50)
            digits = np.stack(
                [rng.integers(radix, size=count) for radix in tree.space.num_options_per_choice], 1
            ).astype(np.uint8)
            for row, outcome in zip(digits, tree.evaluate_per_example(digits), strict=True):
                expected = float(
                    compute_plain_pass_losses(tree, tree.space.configuration_of_digits(row), tree.batches)
                    .double()
                    .mean()
                )
                largest = max(largest, abs(float(outcome.losses.mean(dtype="float64")) - expected) / abs(expected))
    return largest


def measure_levels(tree: TreePerLayerEvaluator, device: str, runs: int) -> dict[str, dict[str, float]]:
    """Return seconds per configuration with the last layers free and the others at their first option."""
    choices, seconds = tree.space.choices, {}
    for free in range(1, len(choices) + 1):
        fixed = len(choices) - free
        restricted = (*(replace(choice, options=choice.options[:1]) for choice in choices[:fixed]), *choices[fixed:])
        space = ConfigurationSpace(tree.space.layers, restricted)
        evaluator = TreePerLayerEvaluator(tree.network, tree.batches, tree.populations, space=space)
        time_call(evaluator.sum_scores_of_all_configurations, device)
        seconds[str(free)] = spread(
            [
                time_call(evaluator.sum_scores_of_all_configurations, device) / space.num_configurations
                for _ in range(runs)
            ]
        )
        print(
            f"{free} levels, {space.num_configurations:6} configurations: "
            f"{seconds[str(free)]['median'] * 1e6:9.1f} µs each"
        )
    return seconds


def measure(semantics: Semantics, device: str, examples: int, runs: int) -> dict[str, Any]:
    """Measure traversals and single evaluations alternately."""
    tree = make_evaluator("lenet", semantics, torch.float32, device, examples)
    rng = np.random.default_rng(1)
    time_call(tree.sum_scores_of_all_configurations, device)
    time_call(partial(measure_loss, tree, tree.space.configuration_of_digits(tree.space.digits_at_index(0))), device)
    seconds, single_seconds, speedups = [], [], []
    for _ in range(runs):
        seconds.append(time_call(tree.sum_scores_of_all_configurations, device))
        single_seconds_of_run = []
        for _ in range(SINGLE_EVALUATIONS // runs):
            configuration = tree.space.configuration_of_digits(
                tree.space.digits_at_index(int(rng.integers(tree.space.num_configurations)))
            )
            single_seconds_of_run.append(time_call(partial(measure_loss, tree, configuration), device))
        speedups.append(statistics.median(single_seconds_of_run) * tree.space.num_configurations / seconds[-1])
        single_seconds += single_seconds_of_run
    result = {
        "seconds": spread(seconds),
        "seconds_of_one": spread(single_seconds),
        "speedup": spread(speedups),
        "measured_one_by_one": len(single_seconds),
    }
    print(f"{semantics:10} {result}")
    return result


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    torch.set_num_threads(2)
    device = options.device
    examples, runs, count = (250, 3, 40) if options.quick else (1_000, 6, 200)
    examples = 10_000 if device != "cpu" and not options.quick else examples
    result = {str(semantics): measure(semantics, device, examples, runs) for semantics in Semantics}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    differences = {str(dtype): largest_difference(dtype, device, count) for dtype in (torch.float64, torch.float32)}
    print(f"largest relative difference of mean losses: {differences}; peak memory {peak:.0f} MB")
    by_levels = measure_levels(make_evaluator("lenet", Semantics.PAPER, torch.float32, device, examples), device, 3)
    finish(
        "per_layer" if device == "cpu" else "per_layer_gpu",
        {
            "speedup": min(timing["speedup"]["median"] for timing in result.values()),
            "configurations": 65_536,
            "seconds": max(timing["seconds"]["median"] for timing in result.values()),
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
