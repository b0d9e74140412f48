"""Every per-layer configuration has the losses of plain forward passes."""

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
from bln_search.evaluation.row_evaluator import copy_network_in_double_precision
from bln_search.evaluation.scoring import cross_entropy
from bln_search.evaluation.tree.space import TreeOptions
from bln_search.evaluation.tree.tree_evaluator import TreeEvaluator
from bln_search.models import MLP, LeNet, ResNet
from bln_search.norms import BLN, BN, LN, make_norm
from bln_search.norms.network.layers import find_norms, layer_estimates, network_populations
from tests.evaluation.builders import SIZE, build_network, draw_examples, estimate_populations, frozen_populations
from tests.evaluation.networks import NETWORKS, Residual
from tests.evaluation.tree.builders import assert_equal_to_plain_passes, draw_digits, make_evaluator
from tests.support.tiers import latin

TINY_LIMIT = 20_000


@pytest.mark.parametrize(("name", "semantics"), latin(["lenet", "mlp", "residual"], ["paper", "reference"]))
def test_200_random_configurations_equal_plain_passes(name, semantics):
    tree = make_evaluator(name, n=14, semantics=semantics)
    assert_equal_to_plain_passes(tree, draw_digits(tree.space, 200))


@pytest.mark.parametrize(("name", "method"), latin(sorted(NETWORKS), ["bln", "bn", "ln"]))
def test_every_network_equals_plain_passes(name, method):
    tree = make_evaluator(name, method=method)
    assert_equal_to_plain_passes(tree, draw_digits(tree.space, 6))


@pytest.mark.parametrize(("name", "affine"), latin(["lenet", "residual", "convolutions"], ["channel", "unit"]))
@pytest.mark.parametrize("method", ["ln", "bln"])
def test_statistics_over_the_whole_layer_equal_plain_passes(method, name, affine):
    tree = make_evaluator(name, n=14, method=method, axes="layer", affine=affine)
    assert_equal_to_plain_passes(tree, draw_digits(tree.space, 40))


def test_a_resnet_of_seven_layers_equals_plain_passes():
    torch.manual_seed(0)
    network = ResNet((3, 8, 8), 10, partial(BLN, batch_size=SIZE), widths=(4, 6, 8), blocks=1).double().eval()
    inputs, targets = draw_examples("resnet", 12)
    tree = TreeEvaluator(
        network,
        list(mini_batches(inputs, targets, SIZE)),
        estimate_populations(network, "resnet"),
        TreeOptions(memory_limit=TINY_LIMIT),
    )
    assert len(tree.space.layers) == 7
    assert_equal_to_plain_passes(tree, draw_digits(tree.space, 30))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "memory_limit"), latin(["mlp", "residual", "in place"], [0, TINY_LIMIT, 2**28]))
def test_the_enumeration_does_not_depend_on_the_memory_limit(name, memory_limit):
    tree = make_evaluator(name, memory_limit=memory_limit)
    sums = tree.evaluate_all_configurations()
    all_digits = [tree.space.digits_at(index) for index in range(tree.space.size)]
    outcomes = tree.per_example_outcomes(all_digits)
    np.testing.assert_allclose(sums.mean_loss(), [each.losses.mean() for each in outcomes], rtol=1e-10)
    np.testing.assert_array_equal(sums.accuracy(), [each.correct.mean() for each in outcomes])
    assert sums.examples.tolist() == [20]
    assert_equal_to_plain_passes(tree, draw_digits(tree.space, 10))


@pytest.mark.parametrize("memory_limit", [0, 3_000, 2**28])
def test_configurations_with_few_shared_prefixes(memory_limit):
    tree = make_evaluator("in place", memory_limit=memory_limit)
    digits = np.array([[0, 3], [0, 15], [1, 3], [1, 4], [7, 0], [7, 1], [15, 15]])
    assert_equal_to_plain_passes(tree, digits)


def test_single_precision_agrees_with_double():
    single = make_evaluator("mlp", n=24, dtype=torch.float32)
    network, populations = copy_network_in_double_precision(single.network, single.populations)
    double = single.with_network(
        network, [(inputs.double(), targets) for inputs, targets in single.batches], populations
    )
    np.testing.assert_allclose(
        single.evaluate_all_configurations().mean_loss(), double.evaluate_all_configurations().mean_loss(), rtol=1e-5
    )


def test_folds_add_up_and_outcomes_keep_the_data_order():
    one_fold, two_folds = make_evaluator("mlp"), make_evaluator("mlp", folds=[1, 0, 1, 0])
    total, sums = one_fold.evaluate_all_configurations(), two_folds.evaluate_all_configurations()
    np.testing.assert_allclose(sums.losses.sum(0), total.losses[0], rtol=1e-12)
    assert sums.examples.tolist() == [8, 12]
    digits = draw_digits(one_fold.space, 5)
    for expected, outcomes in zip(
        one_fold.per_example_outcomes(digits), two_folds.per_example_outcomes(digits), strict=True
    ):
        np.testing.assert_allclose(outcomes.losses, expected.losses, rtol=1e-12)
    losses = two_folds.per_example_outcomes(digits[:1])[0].losses
    np.testing.assert_allclose(
        sums.losses[1, two_folds.space.index(digits[0])], losses[:6].sum() + losses[12:18].sum(), rtol=1e-12
    )


@pytest.mark.parametrize(("name", "memory_limit"), latin(["residual", "in place", "lenet"], [0, TINY_LIMIT, 2**28]))
def test_sums_do_not_depend_on_cached_prefixes(name, memory_limit):
    scope = {"scope": LayerScope.GROUPS, "groups": {"ends": ["features.3", "classifier.6"]}} if name == "lenet" else {}
    tree = make_evaluator(name, n=33, folds=[0, 1, 0, 1, 0, 1], memory_limit=memory_limit, **scope)
    generator = np.random.default_rng(1)
    first_row = draw_digits(tree.space, 1, seed=2)[0]
    for _ in range(12):
        digits = np.stack([first_row] * 4)
        choice = generator.integers(len(first_row))
        digits[:, choice] = generator.integers(tree.space.radices[choice], size=4)
        batches = [int(batch) for batch in generator.permutation(6)[:4]]
        losses, correct = tree.loss_and_correct_sums(digits, batches)
        for row, row_losses, row_correct, outcome in zip(
            digits, losses, correct, tree.per_example_outcomes(digits), strict=True
        ):
            expected = [outcome.losses[6 * batch : 6 * batch + 6].sum() for batch in batches]
            np.testing.assert_allclose(row_losses, expected, rtol=1e-10, err_msg=str(row))
            assert row_correct.tolist() == [outcome.correct[6 * batch : 6 * batch + 6].sum() for batch in batches]
        first_row = digits[0]


@pytest.mark.slow
def test_an_interrupted_enumeration_resumes():
    tree = make_evaluator("mlp", n=30, folds=[0, 1, 0, 1, 0], memory_limit=TINY_LIMIT)
    expected = tree.evaluate_all_configurations()

    class Interrupted(Exception):
        pass

    saved_sums = []

    def keep(sums):
        saved_sums.append(sums)
        if sums.done >= 3:
            raise Interrupted

    with pytest.raises(Interrupted):
        tree.evaluate_all_configurations(keep=keep)
    resumed = tree.evaluate_all_configurations(sums=saved_sums[-1])
    np.testing.assert_array_equal(resumed.losses, expected.losses)
    np.testing.assert_array_equal(resumed.correct, expected.correct)
    assert resumed.done == 5


@pytest.mark.parametrize("patterns", [["features.*"], ["*.3", "*.7"]])
def test_tied_layers_have_one_configuration(patterns):
    tree = make_evaluator("lenet", n=12, scope=LayerScope.GROUPS, groups={"tied": patterns})
    assert tree.space.size < 16**4
    assert_equal_to_plain_passes(tree, draw_digits(tree.space, 20))
    for digits in draw_digits(tree.space, 5):
        configurations = tree.space.configuration(digits).configurations
        tied = next(choice for choice in tree.space.choices if choice.name == "tied")
        assert len({configurations[layer] for layer in tied.layers}) == 1


def test_the_global_scope_has_uniform_configurations_only():
    tree = make_evaluator("lenet", n=12, scope=LayerScope.GLOBAL)
    assert tree.space.size == 16
    assert all(tree.space.configuration(tree.space.digits_at(index)).is_uniform for index in range(16))
    assert_equal_to_plain_passes(tree, [tree.space.digits_at(index) for index in range(16)])


def test_layers_of_other_methods_have_their_own_options():
    torch.manual_seed(0)
    makers = iter([BN, BLN, LN, BLN])
    network = LeNet((3, 12, 12), 10, lambda features: next(makers)(features, batch_size=SIZE)).double().eval()
    inputs, targets = draw_examples("lenet", 12)
    tree = TreeEvaluator(network, list(mini_batches(inputs, targets, SIZE)), estimate_populations(network, "lenet"))
    assert tree.space.radices == (4, 16, 4, 16)
    assert_equal_to_plain_passes(tree, draw_digits(tree.space, 20))
    uniform = tree.space.uniform_digits()
    assert len(uniform) == 16
    assert {str(tree.space.configuration(digits)) for code, digits in uniform.items() if str(code) == "TFTF"} == {
        "TF--.TFTF.--TF.TFTF"
    }


def test_mbn_layers_have_the_memory_as_a_source():
    torch.manual_seed(0)
    network = MLP((3, 8, 8), 10, partial(make_norm, "mbn"), widths=(12, 7)).double()
    inputs, targets = draw_examples("mlp", 24)
    for x, _ in mini_batches(inputs, targets, SIZE):
        network.train()(x)
    network.eval()
    populations = memory_and_frozen_populations(network)
    tree = TreeEvaluator(network, list(mini_batches(inputs, targets, SIZE)), populations)
    assert tree.space.radices == (9, 9)
    assert_equal_to_plain_passes(tree, [tree.space.digits_at(index) for index in range(81)])


def memory_and_frozen_populations(network):
    layers = find_norms(network)
    inputs, _ = draw_examples("mlp", 48)
    moments = {
        **layer_estimates(layers),
        PopulationEstimate.FROZEN: collect_frozen_moments(network, inputs.split(SIZE)),
    }
    return network_populations(layers, moments, Correction.BESSEL, per_slot=False)


def test_undefined_options_are_excluded_with_a_reason():
    network = build_network("mlp", batch_size=1)
    inputs, targets = draw_examples("mlp", 4)
    populations = frozen_populations(network, inputs.split(1))
    tree = TreeEvaluator(network, list(mini_batches(inputs, targets, 1)), populations)
    assert tree.space.radices == (4, 4)
    assert "m = 1" in tree.excluded["layers.3"]["FTFF"]
    assert_equal_to_plain_passes(tree, [tree.space.digits_at(index) for index in range(16)])


def test_own_scores_and_constant_networks_are_evaluated():
    def halved(outputs, targets):
        losses, correct = cross_entropy(outputs, targets)
        return losses / 2, correct

    usual, halved_scores = make_evaluator("mlp"), make_evaluator("mlp", score=halved)
    np.testing.assert_allclose(
        halved_scores.evaluate_all_configurations().mean_loss(),
        usual.evaluate_all_configurations().mean_loss() / 2,
        rtol=1e-10,
    )
    constant = make_evaluator("mlp")
    with torch.no_grad():
        for parameter in constant.network.layers[-1].parameters():
            parameter.zero_()
    sums = constant.evaluate_all_configurations()
    first_class_count = sum(int((targets == 0).sum()) for _, targets in constant.batches)
    np.testing.assert_allclose(sums.mean_loss(), np.log(10), rtol=1e-12)
    np.testing.assert_allclose(sums.correct.sum(0), first_class_count)


def test_distant_logits_equal_plain_passes():
    tree = make_evaluator("mlp")
    with torch.no_grad():
        tree.network.layers[-1].weight.mul_(1e4)
    assert_equal_to_plain_passes(tree, draw_digits(tree.space, 20), tolerance=1e-9)


def test_a_diverged_network_has_nan_losses():
    tree = make_evaluator("mlp")
    with torch.no_grad():
        tree.network.layers[-1].weight[0, 0] = float("nan")
    assert np.isnan(tree.evaluate_all_configurations().mean_loss()).all()


def test_unsupported_networks_and_options_are_an_error():
    class Branching(Residual):
        def forward(self, x):
            return super().forward(x) if x.sum() > 0 else super().forward(-x)

    with pytest.raises(ModelError, match="branch on the values"):
        evaluator_of(Branching)
    with pytest.raises(DataError, match="no mini-batch"):
        network = build_network("mlp")
        TreeEvaluator(network, [], estimate_populations(network, "mlp"))
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
        evaluator_of(Mixing).evaluate_all_configurations()


def test_enumerating_too_many_configurations_is_an_error():
    network = ResNet((3, 8, 8), 10, partial(BLN, batch_size=SIZE), widths=(2, 2, 2), blocks=2).double().eval()
    inputs, targets = draw_examples("resnet", 6)
    tree = TreeEvaluator(network, list(mini_batches(inputs, targets, SIZE)), estimate_populations(network, "resnet"))
    with pytest.raises(ModelError, match="16,777,216"):
        tree.evaluate_all_configurations()


def test_the_network_is_not_changed():
    tree = make_evaluator("mlp")
    tree.network.train()
    before = {name: value.clone() for name, value in tree.network.state_dict().items()}
    tree.evaluate_all_configurations()
    assert tree.network.training
    assert before.keys() == tree.network.state_dict().keys()
    assert all(torch.equal(value, before[name]) for name, value in tree.network.state_dict().items())


def test_codes_digits_and_indices_correspond():
    space = make_evaluator("mlp").space
    for index in (0, 7, 200, 255):
        digits = space.digits_at(index)
        assert space.index(digits) == index
        configuration = space.configuration(digits)
        assert space.digits(PerLayerConfiguration.parse(str(configuration))) == digits
    with pytest.raises(ValueError, match=r"1 layers, .* 2"):
        space.digits(PerLayerConfiguration.parse("TTTT"))
    with pytest.raises(ValueError, match=r"layers\.3 has no option TT--"):
        space.digits(PerLayerConfiguration.parse("TT--.TTTT"))


def evaluator_of(make_network):
    torch.manual_seed(0)
    network: nn.Module = make_network(partial(BLN, batch_size=SIZE)).double().eval()
    inputs, targets = draw_examples("residual")
    return TreeEvaluator(network, list(mini_batches(inputs, targets, SIZE)), estimate_populations(network, "residual"))
