"""Every per-layer configuration gets the losses that it gets alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.enums import Correction, LayerScope, PopulationEstimate
from bln_search.core.errors import DataError, ModelError
from bln_search.core.per_layer import PerLayerConfiguration
from bln_search.evaluation import collect_frozen_moments
from bln_search.evaluation.batches import mini_batches
from bln_search.evaluation.row_evaluator import in_double_precision
from bln_search.evaluation.scoring import cross_entropy
from bln_search.evaluation.tree.space import TreeOptions
from bln_search.evaluation.tree.tree_evaluator import TreeEvaluator
from bln_search.evaluation.tree.verification import plain_pass_losses
from bln_search.models import MLP, LeNet, ResNet
from bln_search.norms import BLN, BN, LN, make_norm
from bln_search.norms.network_layers import find_norms, layer_estimates, network_populations
from tests.evaluation.networks import NETWORKS, Residual
from tests.evaluation.test_one_pass import SIZE, build, data, populations_of
from tests.support.tiers import latin

TINY_LIMIT = 20_000


def evaluator(name="lenet", n=20, size=SIZE, folds=None, dtype=torch.float64, **asked):
    method, semantics = asked.pop("method", "bln"), asked.pop("semantics", "paper")
    network = build(name, method, semantics, dtype)
    inputs, targets = data(name, n, dtype)
    populations = populations_of(network, name, dtype=dtype)
    return TreeEvaluator(
        network, list(mini_batches(inputs, targets, size)), populations, TreeOptions(**asked), folds=folds
    )


def assert_losses_as_alone(tree, digits, tolerance=1e-10):
    for row, outcome in zip(digits, tree.outcomes(digits), strict=True):
        alone = plain_pass_losses(tree, tree.space.configuration(row), tree.batches).numpy()
        np.testing.assert_allclose(outcome.losses, alone, rtol=tolerance, atol=tolerance)


def drawn(space, count, seed=0):
    draw = np.random.default_rng(seed)
    return np.stack([[draw.integers(radix) for radix in space.radices] for _ in range(count)])


@pytest.mark.parametrize(("name", "semantics"), latin(["lenet", "mlp", "residual"], ["paper", "reference"]))
def test_200_random_configurations_equal_plain_passes(name, semantics):
    tree = evaluator(name, n=14, semantics=semantics)
    assert_losses_as_alone(tree, drawn(tree.space, 200))


@pytest.mark.parametrize("name", sorted(NETWORKS))
@pytest.mark.parametrize("method", ["bln", "bn", "ln"])
def test_every_network_equals_plain_passes(name, method):
    tree = evaluator(name, method=method)
    assert_losses_as_alone(tree, drawn(tree.space, 6))


def test_a_resnet_of_seven_layers_equals_plain_passes():
    torch.manual_seed(0)
    network = ResNet((3, 8, 8), 10, partial(BLN, batch_size=SIZE), widths=(4, 6, 8), blocks=1).double().eval()
    inputs, targets = data("resnet", 12)
    tree = TreeEvaluator(
        network,
        list(mini_batches(inputs, targets, SIZE)),
        populations_of(network, "resnet"),
        TreeOptions(memory_limit=TINY_LIMIT),
    )
    assert len(tree.space.layers) == 7
    assert_losses_as_alone(tree, drawn(tree.space, 30))


@pytest.mark.parametrize(("name", "memory_limit"), latin(["mlp", "residual", "in place"], [0, TINY_LIMIT, 2**28]))
def test_the_enumeration_does_not_depend_on_the_memory_limit(name, memory_limit):
    tree = evaluator(name, memory_limit=memory_limit)
    sums = tree.enumerate()
    every = [tree.space.digits_at(index) for index in range(tree.space.size)]
    outcomes = tree.outcomes(every)
    np.testing.assert_allclose(sums.mean_loss(), [one.losses.mean() for one in outcomes], rtol=1e-10)
    np.testing.assert_array_equal(sums.accuracy(), [one.correct.mean() for one in outcomes])
    assert sums.examples.tolist() == [20]
    assert_losses_as_alone(tree, drawn(tree.space, 10))


@pytest.mark.parametrize("memory_limit", [0, 3_000, 2**28])
def test_configurations_with_few_shared_prefixes(memory_limit):
    tree = evaluator("in place", memory_limit=memory_limit)
    digits = np.array([[0, 3], [0, 15], [1, 3], [1, 4], [7, 0], [7, 1], [15, 15]])
    assert_losses_as_alone(tree, digits)


def test_single_precision_agrees_with_double():
    single = evaluator("mlp", n=24, dtype=torch.float32)
    network, populations = in_double_precision(single.network, single.populations)
    double = single.with_network(
        network, [(inputs.double(), targets) for inputs, targets in single.batches], populations
    )
    np.testing.assert_allclose(single.enumerate().mean_loss(), double.enumerate().mean_loss(), rtol=1e-5)


def test_folds_add_up_and_outcomes_keep_the_data_order():
    whole, halves = evaluator("mlp"), evaluator("mlp", folds=[1, 0, 1, 0])
    together, parted = whole.enumerate(), halves.enumerate()
    np.testing.assert_allclose(parted.losses.sum(0), together.losses[0], rtol=1e-12)
    assert parted.examples.tolist() == [8, 12]
    digits = drawn(whole.space, 5)
    for one, other in zip(whole.outcomes(digits), halves.outcomes(digits), strict=True):
        np.testing.assert_allclose(one.losses, other.losses, rtol=1e-12)
    second = halves.outcomes(digits[:1])[0].losses
    np.testing.assert_allclose(
        parted.losses[1, halves.space.index(digits[0])], second[:6].sum() + second[12:18].sum(), rtol=1e-12
    )


@pytest.mark.parametrize(("name", "memory_limit"), latin(["residual", "in place", "lenet"], [0, TINY_LIMIT, 2**28]))
def test_sums_do_not_depend_on_cached_prefixes(name, memory_limit):
    scope = {"scope": LayerScope.GROUPS, "groups": {"ends": ["features.3", "classifier.6"]}} if name == "lenet" else {}
    tree = evaluator(name, n=33, folds=[0, 1, 0, 1, 0, 1], memory_limit=memory_limit, **scope)
    draw = np.random.default_rng(1)
    digits = drawn(tree.space, 1, seed=2)[0]
    for _ in range(12):
        asked = np.stack([digits] * 4)
        choice = draw.integers(len(digits))
        asked[:, choice] = draw.integers(tree.space.radices[choice], size=4)
        batches = [int(batch) for batch in draw.permutation(6)[:4]]
        losses, correct = tree.sums(asked, batches)
        for row, loss, right, outcome in zip(asked, losses, correct, tree.outcomes(asked), strict=True):
            per_batch = [outcome.losses[6 * batch : 6 * batch + 6].sum() for batch in batches]
            np.testing.assert_allclose(loss, per_batch, rtol=1e-10, err_msg=str(row))
            assert right.tolist() == [outcome.correct[6 * batch : 6 * batch + 6].sum() for batch in batches]
        digits = asked[0]


def test_an_interrupted_enumeration_resumes():
    tree = evaluator("mlp", n=30, folds=[0, 1, 0, 1, 0], memory_limit=TINY_LIMIT)
    expected = tree.enumerate()

    class Interrupted(Exception):
        pass

    kept = []

    def keep(sums):
        kept.append(sums)
        if sums.done >= 3:
            raise Interrupted

    with pytest.raises(Interrupted):
        tree.enumerate(keep=keep)
    resumed = tree.enumerate(sums=kept[-1])
    np.testing.assert_array_equal(resumed.losses, expected.losses)
    np.testing.assert_array_equal(resumed.correct, expected.correct)
    assert resumed.done == 5


@pytest.mark.parametrize("order", [["features.*"], ["*.3", "*.7"]])
def test_tied_layers_have_one_configuration(order):
    tree = evaluator("lenet", n=12, scope=LayerScope.GROUPS, groups={"tied": order})
    assert tree.space.size < 16**4
    assert_losses_as_alone(tree, drawn(tree.space, 20))
    for digits in drawn(tree.space, 5):
        words = tree.space.configuration(digits).configurations
        tied = next(choice for choice in tree.space.choices if choice.name == "tied")
        assert len({words[layer] for layer in tied.layers}) == 1


def test_the_global_scope_has_uniform_configurations_only():
    tree = evaluator("lenet", n=12, scope=LayerScope.GLOBAL)
    assert tree.space.size == 16
    assert all(tree.space.configuration(tree.space.digits_at(index)).uniform for index in range(16))
    assert_losses_as_alone(tree, [tree.space.digits_at(index) for index in range(16)])


def test_layers_of_other_methods_have_their_own_options():
    torch.manual_seed(0)

    makers = iter([BN, BLN, LN, BLN])
    network = LeNet((3, 12, 12), 10, lambda features: next(makers)(features, batch_size=SIZE)).double().eval()
    inputs, targets = data("lenet", 12)
    tree = TreeEvaluator(network, list(mini_batches(inputs, targets, SIZE)), populations_of(network, "lenet"))
    assert tree.space.radices == (4, 16, 4, 16)
    assert_losses_as_alone(tree, drawn(tree.space, 20))
    uniform = tree.space.uniform()
    assert len(uniform) == 16
    assert {str(tree.space.configuration(digits)) for word, digits in uniform.items() if str(word) == "TFTF"} == {
        "TF--.TFTF.--TF.TFTF"
    }


def test_mbn_layers_have_the_memory_as_a_source():
    torch.manual_seed(0)
    network = MLP((3, 8, 8), 10, partial(make_norm, "mbn"), widths=(12, 7)).double()
    inputs, targets = data("mlp", 24)
    for x, _ in mini_batches(inputs, targets, SIZE):
        network.train()(x)
    network.eval()
    populations = populations_of_mbn(network)
    tree = TreeEvaluator(network, list(mini_batches(inputs, targets, SIZE)), populations)
    assert tree.space.radices == (9, 9)
    assert_losses_as_alone(tree, [tree.space.digits_at(index) for index in range(81)])


def populations_of_mbn(network):

    layers = find_norms(network)
    inputs, _ = data("mlp", 48)
    gathered = {
        **layer_estimates(layers),
        PopulationEstimate.FROZEN: collect_frozen_moments(network, inputs.split(SIZE)),
    }
    return network_populations(layers, gathered, Correction.BESSEL, per_slot=False)


def test_undefined_options_are_excluded_with_a_reason():
    network = build("mlp", batch_size=1)
    inputs, targets = data("mlp", 4)

    gathered = {PopulationEstimate.FROZEN: collect_frozen_moments(network, inputs.split(1))}
    populations = network_populations(find_norms(network), gathered, Correction.BESSEL, per_slot=False)
    tree = TreeEvaluator(network, list(mini_batches(inputs, targets, 1)), populations)
    assert tree.space.radices == (4, 4)
    assert "m = 1" in tree.excluded["layers.3"]["FTFF"]
    assert_losses_as_alone(tree, [tree.space.digits_at(index) for index in range(16)])


def test_own_scores_and_constant_networks_are_evaluated():
    def halved(outputs, targets):
        losses, correct = cross_entropy(outputs, targets)
        return losses / 2, correct

    usual, own = evaluator("mlp"), evaluator("mlp", score=halved)
    np.testing.assert_allclose(own.enumerate().mean_loss(), usual.enumerate().mean_loss() / 2, rtol=1e-10)
    constant = evaluator("mlp")
    with torch.no_grad():
        for parameter in constant.network.layers[-1].parameters():
            parameter.zero_()
    sums = constant.enumerate()
    first = np.mean([(targets == 0).float().mean() * len(targets) for _, targets in constant.batches]) * len(
        constant.batches
    )
    np.testing.assert_allclose(sums.mean_loss(), np.log(10), rtol=1e-12)
    np.testing.assert_allclose(sums.correct.sum(0), first)


def test_distant_logits_equal_plain_passes():
    tree = evaluator("mlp")
    with torch.no_grad():
        tree.network.layers[-1].weight.mul_(1e4)
    assert_losses_as_alone(tree, drawn(tree.space, 20), tolerance=1e-9)


def test_a_diverged_network_has_nan_losses():
    tree = evaluator("mlp")
    with torch.no_grad():
        tree.network.layers[-1].weight[0, 0] = float("nan")
    assert np.isnan(tree.enumerate().mean_loss()).all()


def test_unsupported_networks_and_options_are_an_error():
    class Branching(Residual):
        def forward(self, x):
            return super().forward(x) if x.sum() > 0 else super().forward(-x)

    with pytest.raises(ModelError, match="does not branch on the values"):
        of(Branching)
    with pytest.raises(DataError, match="no mini-batch"):
        network = build("mlp")
        TreeEvaluator(network, [], populations_of(network, "mlp"))
    with pytest.raises(ModelError, match=r"'encoder\.\*' of the group 'a'"):
        evaluator("mlp", scope=LayerScope.GROUPS, groups={"a": ["encoder.*"]})
    with pytest.raises(ModelError, match=r"layers\.3 matches the groups a and b"):
        evaluator("mlp", scope=LayerScope.GROUPS, groups={"a": ["layers.*"], "b": ["*.3"]})
    with pytest.raises(DataError, match="folds for 1"):
        evaluator("mlp", folds=[0])


def test_mixing_examples_is_an_error():
    class Mixing(Residual):
        def forward(self, x):
            x = self.stem(x)
            x = self.first(x)
            x = x - x.mean(0, keepdim=True)
            return self.head(self.second(x).mean((2, 3)))

    with pytest.raises(ModelError, match="does not treat examples independently"):
        of(Mixing).enumerate()


def test_enumerating_too_many_configurations_is_an_error():
    network = ResNet((3, 8, 8), 10, partial(BLN, batch_size=SIZE), widths=(2, 2, 2), blocks=2).double().eval()
    inputs, targets = data("resnet", 6)
    tree = TreeEvaluator(network, list(mini_batches(inputs, targets, SIZE)), populations_of(network, "resnet"))
    with pytest.raises(ModelError, match="16,777,216"):
        tree.enumerate()


def test_the_network_is_not_changed():
    tree = evaluator("mlp")
    tree.network.train()
    before = {name: value.clone() for name, value in tree.network.state_dict().items()}
    tree.enumerate()
    assert tree.network.training
    assert before.keys() == tree.network.state_dict().keys()
    assert all(torch.equal(value, before[name]) for name, value in tree.network.state_dict().items())


def test_codes_digits_and_indices_correspond():
    space = evaluator("mlp").space
    for index in (0, 7, 200, 255):
        digits = space.digits_at(index)
        assert space.index(digits) == index
        words = space.configuration(digits)
        assert space.digits(PerLayerConfiguration.parse(str(words))) == digits
    with pytest.raises(ValueError, match="for 1 layers, the network has 2"):
        space.digits(PerLayerConfiguration.parse("TTTT"))
    with pytest.raises(ValueError, match=r"layers\.3 has no option TT--"):
        space.digits(PerLayerConfiguration.parse("TT--.TTTT"))


def of(maker):
    torch.manual_seed(0)
    network: nn.Module = maker(partial(BLN, batch_size=SIZE)).double().eval()
    inputs, targets = data("residual")
    return TreeEvaluator(network, list(mini_batches(inputs, targets, SIZE)), populations_of(network, "residual"))
