"""A word for each layer of a recurrent network."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.enums import Correction
from bln_search.core.errors import ModelError
from bln_search.evaluation.batches import mini_batches
from bln_search.evaluation.tree.tree_evaluator import TreeEvaluator
from bln_search.norms.network_layers import find_norms, network_populations
from tests.evaluation.test_one_pass import SIZE
from tests.evaluation.test_recurrent import WORDS, build, data, gathered_by
from tests.evaluation.tree.test_evaluator import assert_losses_as_alone, drawn


def evaluator(cell, *, classes=3, vocabulary=None, **network):
    built = build(cell, classes=classes, vocabulary=vocabulary, **network)
    gathered = gathered_by(built, vocabulary)
    populations = network_populations(find_norms(built), gathered, Correction.BESSEL, per_slot=False)
    return TreeEvaluator(built, list(mini_batches(*data(14, 2, classes, vocabulary), SIZE)), populations)


@pytest.mark.parametrize("vocabulary", [None, WORDS])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_every_recurrent_network_equals_plain_passes(cell, classes, vocabulary):
    tree = evaluator(cell, classes=classes, vocabulary=vocabulary, normalize="layers")
    assert tree.space.radices == (16, 16, 16)
    assert_losses_as_alone(tree, drawn(tree.space, 30))


def test_the_enumeration_equals_the_outcomes():
    tree = evaluator("lstm", classes=2, method="bn", normalize="layers")
    sums = tree.enumerate()
    outcomes = tree.outcomes([tree.space.digits_at(index) for index in range(tree.space.size)])
    assert tree.space.size == 4**3
    np.testing.assert_allclose(sums.mean_loss(), [one.losses.mean() for one in outcomes], rtol=1e-10)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_norms_inside_cells_have_no_per_layer_configurations(cell):
    with pytest.raises(ModelError, match="normalizes inside its recurrent layers, at every time step"):
        evaluator(cell, normalize="cells")
