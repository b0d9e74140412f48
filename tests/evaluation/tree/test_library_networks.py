"""Every configuration of networks as in libraries has the losses of plain forward passes."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.tree.configuration_space import PerLayerEvaluatorOptions
from bln_search.evaluation.tree.tree_evaluator import TreePerLayerEvaluator
from tests.evaluation.tree.builders import assert_equal_to_plain_passes
from tests.evaluation.tree.library_networks import (
    LIBRARY_NETWORKS,
    SIZE,
    build_network,
    draw_sequences,
    frozen_populations,
)
from tests.support.tiers import latin, thinned


@pytest.mark.parametrize(
    ("name", "variant"), thinned(latin(LIBRARY_NETWORKS, [("bln", 2**28), ("ln", 0), ("bn", 3_000)]), 4)
)
@pytest.mark.parametrize("max_compared", [64, pytest.param(None, marks=pytest.mark.slow)])
def test_all_configurations_equal_plain_passes(name, variant, max_compared):
    """At most `max_compared` configurations are compared with plain passes; all are enumerated."""
    method, memory_limit = variant
    network = build_network(LIBRARY_NETWORKS[name], method)
    batches = list(iter_mini_batches_with_fillers(*draw_sequences(10), SIZE))
    tree = TreePerLayerEvaluator(
        network, batches, frozen_populations(network), PerLayerEvaluatorOptions(memory_limit=memory_limit)
    )
    indices = np.random.default_rng(0).permutation(tree.space.num_configurations)[:max_compared]
    digits = [tree.space.choice_digits_at_index(index) for index in indices]
    assert_equal_to_plain_passes(tree, digits)
    mean_losses = [outcomes.losses.mean() for outcomes in tree.evaluate_per_example(digits)]
    np.testing.assert_allclose(
        tree.sum_scores_of_all_configurations().mean_loss_per_configuration()[indices], mean_losses, rtol=1e-10
    )
