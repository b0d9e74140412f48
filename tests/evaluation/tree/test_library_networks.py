"""Every configuration of networks as in libraries has the losses of plain forward passes."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.evaluation.batches import mini_batches
from bln_search.evaluation.tree.space import TreeOptions
from bln_search.evaluation.tree.tree_evaluator import TreeEvaluator
from tests.evaluation.tree.builders import assert_equal_to_plain_passes
from tests.evaluation.tree.library_networks import (
    LIBRARY_NETWORKS,
    SIZE,
    build_network,
    draw_sequences,
    frozen_populations,
)
from tests.support.tiers import latin


@pytest.mark.parametrize(("name", "variant"), latin(LIBRARY_NETWORKS, [("bln", 2**28), ("ln", 0), ("bn", 3_000)]))
@pytest.mark.parametrize("max_compared", [64, pytest.param(None, marks=pytest.mark.slow)])
def test_all_configurations_equal_plain_passes(name, variant, max_compared):
    """At most `max_compared` configurations are compared with plain passes; all are enumerated."""
    method, memory_limit = variant
    network = build_network(LIBRARY_NETWORKS[name], method)
    batches = list(mini_batches(*draw_sequences(10), SIZE))
    tree = TreeEvaluator(network, batches, frozen_populations(network), TreeOptions(memory_limit=memory_limit))
    indices = np.random.default_rng(0).permutation(tree.space.size)[:max_compared]
    digits = [tree.space.digits_at(index) for index in indices]
    assert_equal_to_plain_passes(tree, digits)
    mean_losses = [outcomes.losses.mean() for outcomes in tree.per_example_outcomes(digits)]
    np.testing.assert_allclose(tree.evaluate_all_configurations().mean_loss()[indices], mean_losses, rtol=1e-10)
