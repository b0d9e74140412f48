"""Every configuration of networks as libraries write them has the losses that it has alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.evaluation import collect_frozen_moments
from bln_search.evaluation.batches import mini_batches
from bln_search.evaluation.tree.space import TreeOptions
from bln_search.evaluation.tree.tree_evaluator import TreeEvaluator
from bln_search.norms import make_norm
from bln_search.norms.network_layers import find_norms, network_populations
from tests.evaluation.tree.followed import FOLLOWED, D
from tests.evaluation.tree.test_evaluator import assert_losses_as_alone

SIZE = 4


def drawn(n, seed=1):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 5, D, generator=generator, dtype=torch.float64)
    return x, torch.randint(0, 4, (n,), generator=generator)


def made(maker, method):
    torch.manual_seed(0)
    network = maker(partial(make_norm, method, batch_size=SIZE)).double().eval()
    with torch.no_grad():
        for layer in find_norms(network).values():
            layer.weight.normal_()
            layer.bias.normal_()
    return network


def populations_of(network):
    gathered = {PopulationEstimate.FROZEN: collect_frozen_moments(network, drawn(24, 2)[0].split(SIZE))}
    return network_populations(find_norms(network), gathered, Correction.BESSEL, per_slot=False)


def evaluator(network, n=10, **asked):
    return TreeEvaluator(network, list(mini_batches(*drawn(n), SIZE)), populations_of(network), TreeOptions(**asked))


@pytest.mark.parametrize(("method", "memory_limit"), [("bln", 2**28), ("ln", 0), ("bn", 3_000)])
@pytest.mark.parametrize("name", FOLLOWED)
@pytest.mark.parametrize("most", [64, pytest.param(None, marks=pytest.mark.slow)])
def test_all_configurations_equal_plain_passes(name, method, memory_limit, most):
    """most: per-layer configurations that are evaluated alone; the enumeration is of all of them."""
    tree = evaluator(made(FOLLOWED[name], method), memory_limit=memory_limit)
    chosen = np.random.default_rng(0).permutation(tree.space.size)[:most]
    digits = [tree.space.digits_at(index) for index in chosen]
    assert_losses_as_alone(tree, digits)
    np.testing.assert_allclose(
        tree.enumerate().mean_loss()[chosen], [one.losses.mean() for one in tree.outcomes(digits)], rtol=1e-10
    )
