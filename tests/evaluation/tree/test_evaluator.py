"""Every per-layer configuration has the losses of plain forward passes."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.enums import LayerScope
from bln_search.core.errors import DataError, ModelError
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.row_evaluator import try_copy_network_and_populations_in_double
from bln_search.evaluation.tree.tree_evaluator import TreePerLayerEvaluator
from bln_search.models import ResNet
from bln_search.norms import BLN
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness
from tests.evaluation.builders import SIZE, build_network, draw_examples, estimate_populations
from tests.evaluation.networks import Residual
from tests.evaluation.tree.builders import TINY_LIMIT, assert_equal_to_plain_passes, draw_digits, make_evaluator
from tests.support.tiers import latin, thinned


@pytest.mark.parametrize(("name", "semantics"), thinned(latin(["lenet", "mlp", "residual"], ["paper", "reference"]), 3))
def test_100_random_configurations_equal_plain_passes(name, semantics):
    tree = make_evaluator(name, n=14, semantics=semantics)
    assert_equal_to_plain_passes(tree, draw_digits(tree.space, 100))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "memory_limit"), latin(["mlp", "residual", "in place"], [0, TINY_LIMIT, 2**28]))
def test_the_enumeration_does_not_depend_on_the_memory_limit(name, memory_limit):
    tree = make_evaluator(name, memory_limit=memory_limit)
    sums = tree.sum_scores_of_all_configurations()
    all_digits = [tree.space.choice_digits_at_index(index) for index in range(tree.space.num_configurations)]
    outcomes = tree.evaluate_per_example(all_digits)
    np.testing.assert_allclose(
        sums.mean_loss_per_configuration(), [each.losses.mean() for each in outcomes], rtol=1e-10
    )
    np.testing.assert_array_equal(sums.accuracy_per_configuration(), [each.correct.mean() for each in outcomes])
    assert sums.examples.tolist() == [20]
    assert_equal_to_plain_passes(tree, draw_digits(tree.space, 10))


def test_single_precision_agrees_with_double():
    single = make_evaluator("mlp", n=24, dtype=torch.float32)
    network, populations = try_copy_network_and_populations_in_double(single.network, single.populations)
    double = single.make_evaluator_with_same_options(
        network, [(inputs.double(), targets) for inputs, targets in single.batches], populations
    )
    np.testing.assert_allclose(
        single.sum_scores_of_all_configurations().mean_loss_per_configuration(),
        double.sum_scores_of_all_configurations().mean_loss_per_configuration(),
        rtol=1e-5,
    )


def test_own_scores_and_constant_networks_are_evaluated():
    def halved(outputs, targets):
        losses, correct = cross_entropy_and_correctness(outputs, targets)
        return losses / 2, correct

    usual, halved_scores = make_evaluator("mlp"), make_evaluator("mlp", score=halved)
    np.testing.assert_allclose(
        halved_scores.sum_scores_of_all_configurations().mean_loss_per_configuration(),
        usual.sum_scores_of_all_configurations().mean_loss_per_configuration() / 2,
        rtol=1e-10,
    )
    constant = make_evaluator("mlp")
    with torch.no_grad():
        for parameter in constant.network.layers[-1].parameters():
            parameter.zero_()
    sums = constant.sum_scores_of_all_configurations()
    first_class_count = sum(int((targets == 0).sum()) for _, targets in constant.batches)
    np.testing.assert_allclose(sums.mean_loss_per_configuration(), np.log(10), rtol=1e-12)
    np.testing.assert_allclose(sums.correct.sum(0), first_class_count)


def test_a_diverged_network_has_nan_losses():
    tree = make_evaluator("mlp")
    with torch.no_grad():
        tree.network.layers[-1].weight[0, 0] = float("nan")
    assert np.isnan(tree.sum_scores_of_all_configurations().mean_loss_per_configuration()).all()


def test_unsupported_networks_and_options_are_an_error():
    class Branching(Residual):
        def forward(self, x):
            return super().forward(x) if x.sum() > 0 else super().forward(-x)

    with pytest.raises(ModelError, match="branch on the values"):
        evaluator_of(Branching)
    with pytest.raises(DataError, match="no mini-batch"):
        network = build_network("mlp")
        TreePerLayerEvaluator(network, [], estimate_populations(network, "mlp"))
    with pytest.raises(ModelError, match=r"'encoder\.\*' of the group 'a'"):
        make_evaluator("mlp", scope=LayerScope.GROUPS, groups={"a": ["encoder.*"]})
    with pytest.raises(ModelError, match=r"layers\.3 matches the groups a and b"):
        make_evaluator("mlp", scope=LayerScope.GROUPS, groups={"a": ["layers.*"], "b": ["*.3"]})
    with pytest.raises(DataError, match="folds for 1"):
        make_evaluator("mlp", folds=[0])


def test_mixing_examples_is_an_error():
    class Mixing(Residual):
        def forward(self, x):
            x = self.stem(x)
            x = self.first(x)
            x = x - x.mean(0, keepdim=True)
            return self.head(self.second(x).mean((2, 3)))

    with pytest.raises(ModelError, match=r"not treat .* independently"):
        evaluator_of(Mixing).sum_scores_of_all_configurations()


def test_enumerating_too_many_configurations_is_an_error():
    network = ResNet((3, 8, 8), 10, partial(BLN, batch_size=SIZE), widths=(2, 2, 2), blocks=2).double().eval()
    inputs, targets = draw_examples("resnet", 6)
    tree = TreePerLayerEvaluator(
        network, list(iter_mini_batches_with_fillers(inputs, targets, SIZE)), estimate_populations(network, "resnet")
    )
    with pytest.raises(ModelError, match="16,777,216"):
        tree.sum_scores_of_all_configurations()


def test_the_network_is_not_changed():
    tree = make_evaluator("mlp")
    tree.network.train()
    before = {name: value.clone() for name, value in tree.network.state_dict().items()}
    tree.sum_scores_of_all_configurations()
    assert tree.network.training
    assert before.keys() == tree.network.state_dict().keys()
    assert all(torch.equal(value, before[name]) for name, value in tree.network.state_dict().items())


def evaluator_of(make_network):
    torch.manual_seed(0)
    network: nn.Module = make_network(partial(BLN, batch_size=SIZE)).double().eval()
    inputs, targets = draw_examples("residual")
    return TreePerLayerEvaluator(
        network, list(iter_mini_batches_with_fillers(inputs, targets, SIZE)), estimate_populations(network, "residual")
    )
