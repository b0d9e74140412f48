"""Tree evaluators of small networks, random configurations, and the comparison with plain forward passes."""

from __future__ import annotations

import numpy as np
import torch

from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.tree.configuration_space import PerLayerEvaluatorOptions
from bln_search.evaluation.tree.tree_evaluator import TreePerLayerEvaluator
from bln_search.evaluation.tree.verification import compute_plain_pass_losses_of_configuration
from tests.evaluation.builders import SIZE, build_network, draw_examples, estimate_populations

TINY_LIMIT = 20_000
"""A memory limit in bytes that few activations fit."""


def make_evaluator(name="lenet", n=20, size=SIZE, folds=None, dtype=torch.float64, **options):
    """Return a tree evaluator; options of normalization layers among the options are those of the network."""
    norm = {key: options.pop(key) for key in ("method", "semantics", "axes", "affine") if key in options}
    network = build_network(name, dtype=dtype, **norm)
    inputs, targets = draw_examples(name, n, dtype)
    populations = estimate_populations(network, name, dtype=dtype)
    return TreePerLayerEvaluator(
        network,
        list(iter_mini_batches_with_fillers(inputs, targets, size)),
        populations,
        PerLayerEvaluatorOptions(**options),
        folds=folds,
    )


def assert_equal_to_plain_passes(evaluator, digits, tolerance=1e-10):
    for row, outcomes in zip(digits, evaluator.evaluate_per_example(digits), strict=True):
        plain = compute_plain_pass_losses_of_configuration(
            evaluator, evaluator.space.configuration_of_choice_digits(row), evaluator.batches
        ).numpy()
        np.testing.assert_allclose(outcomes.losses, plain, rtol=tolerance, atol=tolerance)


def draw_digits(space, count, seed=0):
    generator = np.random.default_rng(seed)
    return np.stack([[generator.integers(radix) for radix in space.num_options_per_choice] for _ in range(count)])
