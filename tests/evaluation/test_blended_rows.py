"""The one pass gives blended rows the losses of plain forward passes."""

from __future__ import annotations

import pytest

from bln_search.core.blend import PopulationWeight, blended_estimate_label
from bln_search.core.enums import PopulationEstimate
from bln_search.norms.row_batching.row_tensor import InferenceRow
from tests.evaluation.builders import build_network, estimate_populations, row_specs
from tests.evaluation.networks import NETWORKS
from tests.evaluation.plain_passes import assert_equal_to_plain_passes
from tests.support.tiers import latin, thinned

BLENDS = (PopulationWeight(0.1), PopulationWeight(16, is_prior=True))
VARIANTS = [("bln", "paper"), ("bln", "reference"), ("bn", "paper"), ("ln", "paper")]


def with_blends(rows):
    """The rows, each that reads the population also blended."""
    blended = [
        InferenceRow(row.configuration.with_blend_for_population, blended_estimate_label(row.estimate, blend))
        for row in rows
        if row.estimate is not None
        for blend in BLENDS
    ]
    return [*rows, *blended]


@pytest.mark.parametrize(("name", "variant"), thinned(latin(NETWORKS, VARIANTS), 3))
def test_blended_losses_equal_plain_passes(name, variant):
    method, semantics = variant
    network = build_network(name, method=method, semantics=semantics)
    rows = with_blends(row_specs(network, (PopulationEstimate.FROZEN,)))
    assert_equal_to_plain_passes(network, name, estimate_populations(network, name), rows)


@pytest.mark.parametrize("name", thinned(["lenet", "mlp"], 2, start=1))
def test_blends_of_per_slot_populations_equal_plain_passes(name):
    network = build_network(name)
    populations = estimate_populations(network, name, per_slot=True)
    assert_equal_to_plain_passes(network, name, populations, with_blends(row_specs(network)))
