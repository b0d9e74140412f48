"""Per-layer configurations of recurrent networks."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.enums import Correction
from bln_search.core.errors import ModelError
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.tree.tree_evaluator import TreePerLayerEvaluator
from bln_search.norms.network.layers import compute_populations_of_layers, get_norms_by_name
from tests.evaluation.builders import SIZE
from tests.evaluation.recurrent_builders import VOCABULARY, build_recurrent, collect_moments_of, draw_sequences
from tests.evaluation.tree.builders import assert_equal_to_plain_passes, draw_digits
from tests.support.tiers import latin


def make_recurrent_evaluator(cell, *, classes=3, vocabulary=None, **options):
    network = build_recurrent(cell, classes=classes, vocabulary=vocabulary, **options)
    moments = collect_moments_of(network, vocabulary)
    populations = compute_populations_of_layers(get_norms_by_name(network), moments, Correction.BESSEL, per_slot=False)
    return TreePerLayerEvaluator(
        network, list(iter_mini_batches_with_fillers(*draw_sequences(14, 2, classes, vocabulary), SIZE)), populations
    )


@pytest.mark.parametrize(("cell", "classes", "vocabulary"), latin(["lstm", "gru", "rnn"], [2, 3], [None, VOCABULARY]))
def test_every_recurrent_network_equals_plain_passes(cell, classes, vocabulary):
    tree = make_recurrent_evaluator(cell, classes=classes, vocabulary=vocabulary, normalize="layers")
    assert tree.space.num_options_per_choice == (16, 16, 16)
    assert_equal_to_plain_passes(tree, draw_digits(tree.space, 30))


def test_the_enumeration_equals_the_outcomes():
    tree = make_recurrent_evaluator("lstm", classes=2, method="bn", normalize="layers")
    sums = tree.sum_scores_of_all_configurations()
    outcomes = tree.evaluate_per_example(
        [tree.space.choice_digits_at_index(index) for index in range(tree.space.num_configurations)]
    )
    assert tree.space.num_configurations == 4**3
    np.testing.assert_allclose(
        sums.mean_loss_per_configuration(), [row_outcomes.losses.mean() for row_outcomes in outcomes], rtol=1e-10
    )


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_norms_inside_cells_have_no_per_layer_configurations(cell):
    with pytest.raises(ModelError, match="inside its recurrent layers"):
        make_recurrent_evaluator(cell, normalize="cells")
