"""All 65,536 per-layer configurations of a LeNet in one tree traversal, against evaluating them one by one.

LeNet, CIFAR-10 shapes, mini-batches of 25, two threads. In one process: the traversal of every configuration, and
between its runs plain forward passes of random configurations, whose median represents all configurations. With the
extra `fast` the traversal with compiled kernels is measured too, and both with ReLU in place of tanh. Equality is
checked in float64 and float32 on both, an MLP and a residual network. Levels: the last layers free, one to four.
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

from bench.enumerate import NETWORKS, prepare_network
from bench.support.kernels import WITH_KERNELS, WITHOUT_KERNELS, kernel_contexts, with_kernels
from bench.support.one_pass import BATCH
from bench.support.reporting import finish, make_parser, spread
from bench.support.timing import time_call
from bln_search.core.enums import Semantics
from bln_search.core.per_layer import ConfigurationSpace, PerLayerConfiguration
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.tree.tree_evaluator import TreePerLayerEvaluator
from bln_search.evaluation.tree.verification import (
    compute_plain_pass_losses_of_configuration,
    use_per_layer_configuration,
)
from bln_search.norms.network.layers import evaluation_mode
from bln_search.norms.row_batching.compiled.availability import use_torch_instead_of_kernels

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
    for name in NETWORKS:
        for semantics in Semantics:
            tree = make_evaluator(name, semantics, dtype, device, 50)
            digits = np.stack(
                [rng.integers(radix, size=count) for radix in tree.space.num_options_per_choice], 1
            ).astype(np.uint8)
            for row, outcome in zip(digits, tree.evaluate_per_example(digits), strict=True):
                expected = float(
                    compute_plain_pass_losses_of_configuration(
                        tree, tree.space.configuration_of_choice_digits(row), tree.batches
                    )
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


def measure(name: str, semantics: Semantics, device: str, examples: int, runs: int) -> dict[str, dict[str, Any]]:
    """Measure traversals without and with compiled kernels and single evaluations alternately."""
    tree = make_evaluator(name, semantics, torch.float32, device, examples)
    rng = np.random.default_rng(1)
    contexts = kernel_contexts(device)
    for context in contexts.values():
        with context():
            time_call(tree.sum_scores_of_all_configurations, device)
    seconds: dict[str, list[float]] = {variant: [] for variant in contexts}
    single_seconds, medians = [], []
    for _ in range(runs):
        for variant, context in contexts.items():
            with context():
                seconds[variant].append(time_call(tree.sum_scores_of_all_configurations, device))
        single_seconds_of_run = []
        for _ in range(SINGLE_EVALUATIONS // runs):
            configuration = tree.space.configuration_of_choice_digits(
                tree.space.choice_digits_at_index(int(rng.integers(tree.space.num_configurations)))
            )
            single_seconds_of_run.append(time_call(partial(measure_loss, tree, configuration), device))
        medians.append(statistics.median(single_seconds_of_run))
        single_seconds += single_seconds_of_run
    result = {}
    for variant, traversals in seconds.items():
        result[variant] = {
            "seconds": spread(traversals),
            "seconds_of_one": spread(single_seconds),
            "speedup": spread(
                [
                    median * tree.space.num_configurations / traversal
                    for median, traversal in zip(medians, traversals, strict=True)
                ]
            ),
            "measured_one_by_one": len(single_seconds),
        }
        print(f"{name:10} {semantics:10} {variant:13} {result[variant]}")
    if WITH_KERNELS in contexts:
        result[WITH_KERNELS] |= compare_kernels_with_torch(tree)
    return result


def compare_kernels_with_torch(tree: TreePerLayerEvaluator) -> dict[str, Any]:
    """Return how sums of all configurations differ between the two variants."""
    with use_torch_instead_of_kernels():
        expected = tree.sum_scores_of_all_configurations()
    sums = tree.sum_scores_of_all_configurations()
    losses, expected_losses = sums.mean_loss_per_configuration(), expected.mean_loss_per_configuration()
    return {
        "max_relative_difference_of_kernels": float((np.abs(losses - expected_losses) / expected_losses).max()),
        "configurations_with_different_counts": int((sums.correct != expected.correct).any(0).sum()),
        "same_best_configuration": bool(losses.argmin() == expected_losses.argmin()),
    }


def summarize(timings: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the smallest speedup and the longest time of both semantics, and their timings."""
    return {
        "speedup": min(timing["speedup"]["median"] for timing in timings.values()),
        "seconds": max(timing["seconds"]["median"] for timing in timings.values()),
        "by_semantics": timings,
    }


def measure_both_semantics(name: str, device: str, examples: int, runs: int) -> dict[str, dict[str, Any]]:
    """Return the summary of a network for each variant of kernels."""
    measured = {str(semantics): measure(name, semantics, device, examples, runs) for semantics in Semantics}
    return {
        variant: summarize({semantics: timing[variant] for semantics, timing in measured.items()})
        for variant in kernel_contexts(device)
    }


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    torch.set_num_threads(2)
    device = options.device
    examples, runs, count = (250, 3, 40) if options.quick else (1_000, 6, 200)
    examples = 10_000 if device != "cpu" and not options.quick else examples
    result = measure_both_semantics("lenet", device, examples, runs)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with_relu = measure_both_semantics("lenet_relu", device, examples, runs)
    differences = {str(dtype): largest_difference(dtype, device, count) for dtype in (torch.float64, torch.float32)}
    print(f"largest relative difference of mean losses: {differences}; peak memory {peak:.0f} MB")
    with use_torch_instead_of_kernels():
        tree = make_evaluator("lenet", Semantics.PAPER, torch.float32, device, examples)
        by_levels = measure_levels(tree, device, 3)
    finish(
        "per_layer" if device == "cpu" else "per_layer_gpu",
        {
            **result[WITHOUT_KERNELS],
            **with_kernels(result),
            "with_relu": with_relu,
            "configurations": 65_536,
            "peak_memory_mb": peak,
            "max_relative_difference": differences["torch.float32"],
            "max_relative_difference_float64": differences["torch.float64"],
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
