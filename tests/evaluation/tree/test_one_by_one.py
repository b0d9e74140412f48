"""Networks that cannot be cut at their layers are evaluated by plain forward passes, one configuration at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.errors import DataError, ModelError
from bln_search.evaluation.batches import mini_batches
from bln_search.evaluation.tree.evaluators import make_evaluator
from bln_search.evaluation.tree.plain_evaluator import PlainEvaluator
from bln_search.evaluation.tree.space import TreeOptions
from bln_search.evaluation.tree.tree_evaluator import TreeEvaluator
from tests.evaluation.tree.followed import Block, Tied
from tests.evaluation.tree.test_evaluator import assert_losses_as_alone
from tests.evaluation.tree.test_followed import SIZE, drawn, made, populations_of


class Looping(Block):
    """A loop over positions."""

    def between(self, x):
        return torch.stack([torch.tanh(self.middle(x[:, place])) for place in range(x.shape[1])], 1)


class Assigning(Block):
    """Entries are set, with the second layer first."""

    def forward(self, x):
        x = self.second(self.stem(x))
        x[:, 0] = 0
        return self.answered(self.first(x))


class Branching(Block):
    """On a value of each mini-batch."""

    def between(self, x):
        return torch.tanh(self.middle(x)) if x.abs().amax() > 0 else x


class ByPositions(Block):
    """Positions on the first axis between the layers, where what comes from in front of a layer meets the rest."""

    def forward(self, x):
        early = torch.tanh(self.stem(x)).transpose(0, 1)
        x = self.first(torch.tanh(self.stem(x)))
        crossed = nn.functional.scaled_dot_product_attention(x.transpose(0, 1), early, early)
        return self.answered(self.second(x + crossed.transpose(0, 1)))


NETWORKS = {"looping": Looping, "assigning": Assigning, "branching": Branching}


def evaluator(network, n=10, folds=None, kind=PlainEvaluator, **asked):
    return kind(
        network, list(mini_batches(*drawn(n), SIZE)), populations_of(network), TreeOptions(**asked), folds=folds
    )


def chosen(network, n=10):
    batches = list(mini_batches(*drawn(n), SIZE))
    return make_evaluator(network, batches, populations_of(network), TreeOptions(), folds=[0] * len(batches))


@pytest.mark.parametrize("method", ["bln", "bn", "ln"])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_configuration_equals_plain_passes(name, method):
    network = made(NETWORKS[name], method)
    with pytest.warns(UserWarning, match=r"evaluated one by one with plain forward passes"):
        found = chosen(network)
    assert isinstance(found, PlainEvaluator)
    assert_losses_as_alone(found, [found.space.digits_at(index) for index in range(found.space.size)])


@pytest.mark.parametrize("maker", [Block, Tied])
def test_plain_evaluation_equals_tree_evaluation(maker):
    network = made(maker, "ln")
    folds = [1, 0, 1]
    plainly, tree = (evaluator(network, folds=folds, kind=kind) for kind in (PlainEvaluator, TreeEvaluator))
    assert plainly.space == tree.space
    assert (plainly.examples_per_batch, plainly.examples) == (tree.examples_per_batch, tree.examples)
    for one, other in zip(vars(plainly.enumerate()).values(), vars(tree.enumerate()).values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)
    digits = np.array([[0, 1], [3, 3], [0, 1]], np.uint8)
    for one, other in zip(plainly.sums(digits, [2, 0]), tree.sums(digits, [2, 0]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)
    for one, other in zip(plainly.outcomes(digits), tree.outcomes(digits), strict=True):
        np.testing.assert_allclose(one.losses, other.losses, rtol=1e-10)
        np.testing.assert_array_equal(one.correct, other.correct)


@pytest.mark.parametrize(("memory_limit", "passes"), [(2**20, 8), (200, 11), (0, 16)])
def test_scores_are_cached_up_to_the_memory_limit(memory_limit, passes):
    network = made(Looping, "ln")
    found = evaluator(network, n=8, memory_limit=memory_limit)
    counted = []
    network.register_forward_hook(lambda *_: counted.append(1))
    digits = np.array([[0, 0], [0, 1], [1, 0], [3, 3]], np.uint8)
    found.sums(digits, [0])
    found.outcomes(digits)
    found.sums(digits[:2], [1])
    found.sums(digits[2:], [1])
    assert len(counted) == passes


def test_an_interrupted_enumeration_resumes():
    network = made(Looping, "ln")
    whole = evaluator(network, folds=[0, 1, 0]).enumerate()

    class Stopped(Exception):
        pass

    def keep(sums):
        if sums.done == 2:
            kept.append(sums)
            raise Stopped

    kept = []
    with pytest.raises(Stopped):
        evaluator(network, folds=[0, 1, 0]).enumerate(keep=keep)
    resumed = evaluator(network, folds=[0, 1, 0]).enumerate(sums=kept[0])
    np.testing.assert_array_equal(resumed.losses, whole.losses)
    assert resumed.examples.tolist() == [6, 4]


def test_layers_are_in_call_order():
    assert evaluator(made(Assigning, "bln")).segmented.names == ("second", "first")


def test_plain_evaluation_replaces_a_failed_traversal():
    network = made(ByPositions, "ln")
    with pytest.warns(UserWarning, match=r"\(ModelError: .*first axis"):
        found = chosen(network)
    assert_losses_as_alone(found, [found.space.digits_at(index) for index in range(16)])


def test_unsupported_networks_are_an_error():
    class Unreached(Looping):
        def forward(self, x):
            return self.answered(x)

    class Several(Looping):
        def forward(self, x):
            return super().forward(x), x

    with pytest.raises(ModelError, match="calls none of its normalization layers"):
        PlainEvaluator(made(Unreached, "ln"), list(mini_batches(*drawn(8), SIZE)), {})
    with pytest.raises(ModelError, match="returns tuple: wrap it so that it returns one tensor"):
        evaluator(made(Several, "ln")).enumerate()
    with pytest.raises(DataError, match="no mini-batch"):
        PlainEvaluator(made(Looping, "ln"), [], {})


def test_enumerating_a_large_space_one_by_one_is_an_error():
    class Long(Looping):
        def __init__(self, norm):
            super().__init__(norm)
            self.third, self.fourth = norm(6), norm(6)

        def forward(self, x):
            return super().forward(self.third(self.fourth(x)))

    with pytest.raises(ModelError, match=r"65,536 .* 4,096"):
        evaluator(made(Long, "bln")).enumerate()


def test_the_network_is_not_changed():
    network = made(Assigning, "bln").train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    evaluator(network).outcomes([[0, 15]])
    assert network.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert not any(module._forward_pre_hooks for module in network.modules())
