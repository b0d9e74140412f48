"""Networks that cannot be split at their layers are evaluated by plain forward passes, one configuration at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.errors import DataError, ModelError
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.tree.configuration_space import PerLayerEvaluatorOptions
from bln_search.evaluation.tree.evaluators import make_per_layer_evaluator
from bln_search.evaluation.tree.plain_evaluator import PlainPerLayerEvaluator
from bln_search.evaluation.tree.tree_evaluator import TreePerLayerEvaluator
from tests.evaluation.tree.builders import assert_equal_to_plain_passes
from tests.evaluation.tree.library_networks import (
    SIZE,
    Block,
    Tied,
    build_network,
    draw_sequences,
    frozen_populations,
)
from tests.support.tiers import latin


class Looping(Block):
    """A loop over positions."""

    def between(self, x):
        return torch.stack([torch.tanh(self.middle(x[:, position])) for position in range(x.shape[1])], 1)


class Assigning(Block):
    """Assigns to elements, and calls the second layer first."""

    def forward(self, x):
        x = self.second(self.stem(x))
        x[:, 0] = 0
        return self.classify(self.first(x))


class Branching(Block):
    """Branches on a value of each mini-batch."""

    def between(self, x):
        return torch.tanh(self.middle(x)) if x.abs().amax() > 0 else x


class ByPositions(Block):
    """Combines values from before and after a norm with positions on the first axis."""

    def forward(self, x):
        early = torch.tanh(self.stem(x)).transpose(0, 1)
        x = self.first(torch.tanh(self.stem(x)))
        crossed = nn.functional.scaled_dot_product_attention(x.transpose(0, 1), early, early)
        return self.classify(self.second(x + crossed.transpose(0, 1)))


NETWORKS = {"looping": Looping, "assigning": Assigning, "branching": Branching}


def make_plain_evaluator(network, n=10, folds=None, evaluator_type=PlainPerLayerEvaluator, **options):
    return evaluator_type(
        network,
        list(iter_mini_batches_with_fillers(*draw_sequences(n), SIZE)),
        frozen_populations(network),
        PerLayerEvaluatorOptions(**options),
        folds=folds,
    )


def select_evaluator(network, n=10):
    batches = list(iter_mini_batches_with_fillers(*draw_sequences(n), SIZE))
    return make_per_layer_evaluator(
        network, batches, frozen_populations(network), PerLayerEvaluatorOptions(), folds=[0] * len(batches)
    )


@pytest.mark.parametrize(("name", "method"), latin(tuple(NETWORKS), ["bln", "bn", "ln"]))
def test_every_configuration_equals_plain_passes(name, method):
    network = build_network(NETWORKS[name], method)
    with pytest.warns(UserWarning, match="one by one"):
        evaluator = select_evaluator(network)
    assert isinstance(evaluator, PlainPerLayerEvaluator)
    all_digits = [evaluator.space.choice_digits_at_index(index) for index in range(evaluator.space.num_configurations)]
    assert_equal_to_plain_passes(evaluator, all_digits)


@pytest.mark.parametrize("make_network", [Block, Tied])
def test_plain_evaluation_equals_tree_evaluation(make_network):
    network = build_network(make_network, "ln")
    folds = [1, 0, 1]
    plain, tree = (
        make_plain_evaluator(network, folds=folds, evaluator_type=evaluator_type)
        for evaluator_type in (PlainPerLayerEvaluator, TreePerLayerEvaluator)
    )
    assert plain.space == tree.space
    assert (plain.example_counts_by_batch, plain.num_examples) == (tree.example_counts_by_batch, tree.num_examples)
    for value, expected in zip(
        vars(plain.sum_scores_of_all_configurations()).values(),
        vars(tree.sum_scores_of_all_configurations()).values(),
        strict=True,
    ):
        np.testing.assert_allclose(value, expected, rtol=1e-10)
    digits = np.array([[0, 1], [3, 3], [0, 1]], np.uint8)
    for value, expected in zip(
        plain.score_sums_by_batch(digits, [2, 0]), tree.score_sums_by_batch(digits, [2, 0]), strict=True
    ):
        np.testing.assert_allclose(value, expected, rtol=1e-10)
    for outcomes, expected in zip(plain.evaluate_per_example(digits), tree.evaluate_per_example(digits), strict=True):
        np.testing.assert_allclose(outcomes.losses, expected.losses, rtol=1e-10)
        np.testing.assert_array_equal(outcomes.correct, expected.correct)


@pytest.mark.parametrize(("memory_limit", "passes"), [(2**20, 8), (200, 11), (0, 16)])
def test_scores_are_cached_up_to_the_memory_limit(memory_limit, passes):
    network = build_network(Looping, "ln")
    calls = []
    network.register_forward_hook(lambda *_: calls.append(1))
    evaluator = make_plain_evaluator(network, n=8, memory_limit=memory_limit)
    calls.clear()
    digits = np.array([[0, 0], [0, 1], [1, 0], [3, 3]], np.uint8)
    evaluator.score_sums_by_batch(digits, [0])
    evaluator.evaluate_per_example(digits)
    evaluator.score_sums_by_batch(digits[:2], [1])
    evaluator.score_sums_by_batch(digits[2:], [1])
    assert len(calls) == passes


def test_an_interrupted_enumeration_resumes():
    network = build_network(Looping, "ln")
    expected = make_plain_evaluator(network, folds=[0, 1, 0]).sum_scores_of_all_configurations()

    class Stopped(Exception):
        pass

    def keep(sums):
        if sums.done == 2:
            saved_sums.append(sums)
            raise Stopped

    saved_sums = []
    with pytest.raises(Stopped):
        make_plain_evaluator(network, folds=[0, 1, 0]).sum_scores_of_all_configurations(keep=keep)
    resumed = make_plain_evaluator(network, folds=[0, 1, 0]).sum_scores_of_all_configurations(sums=saved_sums[0])
    np.testing.assert_array_equal(resumed.losses, expected.losses)
    assert resumed.examples.tolist() == [6, 4]


def test_layers_are_in_call_order():
    assert make_plain_evaluator(build_network(Assigning, "bln")).segmented.names == ("second", "first")


def test_plain_evaluation_replaces_a_failed_traversal():
    network = build_network(ByPositions, "ln")
    with pytest.warns(UserWarning, match=r"\(RowBatchingError: .*first axis"):
        evaluator = select_evaluator(network)
    assert_equal_to_plain_passes(evaluator, [evaluator.space.choice_digits_at_index(index) for index in range(16)])


def test_one_mini_batch_suffices_for_plain_evaluation():
    network = build_network(Looping, "ln")
    with pytest.warns(UserWarning, match="one by one"):
        evaluator = select_evaluator(network, n=SIZE)
    assert (evaluator.num_examples, len(evaluator.batches)) == (SIZE, 1)


def test_unsupported_networks_are_an_error():
    class Unreached(Looping):
        def forward(self, x):
            return self.classify(x)

    class Several(Looping):
        def forward(self, x):
            return super().forward(x), x

    with pytest.raises(ModelError, match="calls none"):
        PlainPerLayerEvaluator(
            build_network(Unreached, "ln"), list(iter_mini_batches_with_fillers(*draw_sequences(8), SIZE)), {}
        )
    with pytest.raises(ModelError, match="returns tuple"):
        make_plain_evaluator(build_network(Several, "ln")).sum_scores_of_all_configurations()
    with pytest.raises(DataError, match="no mini-batch"):
        PlainPerLayerEvaluator(build_network(Looping, "ln"), [], {})


def test_enumerating_a_large_space_one_by_one_is_an_error():
    class Long(Looping):
        def __init__(self, norm):
            super().__init__(norm)
            self.third, self.fourth = norm(6), norm(6)

        def forward(self, x):
            return super().forward(self.third(self.fourth(x)))

    with pytest.raises(ModelError, match=r"65,536 .* 4,096"):
        make_plain_evaluator(build_network(Long, "bln")).sum_scores_of_all_configurations()


def test_the_network_is_not_changed():
    network = build_network(Assigning, "bln").train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    make_plain_evaluator(network).evaluate_per_example([[0, 15]])
    assert network.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert not any(module._forward_pre_hooks for module in network.modules())
