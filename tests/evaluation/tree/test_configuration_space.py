"""A space has one choice for each layer or group: the configurations that it can have."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from bln_search.core.enums import Correction, LayerScope, PopulationEstimate
from bln_search.core.per_layer import PerLayerConfiguration
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.tree.tree_evaluator import TreePerLayerEvaluator
from bln_search.models import MLP, LeNet
from bln_search.norms import BLN, BN, LN, make_norm
from bln_search.norms.network.layers import (
    compute_populations_of_layers,
    get_norms_by_name,
    moments_by_estimate_from_training_history,
)
from tests.evaluation.builders import SIZE, build_network, draw_examples, estimate_populations, frozen_populations
from tests.evaluation.tree.builders import assert_equal_to_plain_passes, draw_digits, make_evaluator


@pytest.mark.parametrize("patterns", [["features.*"], ["*.3", "*.7"]])
def test_tied_layers_have_one_configuration(patterns):
    tree = make_evaluator("lenet", n=12, scope=LayerScope.GROUPS, groups={"tied": patterns})
    assert tree.space.num_configurations < 16**4
    assert_equal_to_plain_passes(tree, draw_digits(tree.space, 20))
    for digits in draw_digits(tree.space, 5):
        configurations = tree.space.configuration_of_choice_digits(digits).configurations
        tied = next(choice for choice in tree.space.choices if choice.name == "tied")
        assert len({configurations[layer] for layer in tied.layers}) == 1


def test_the_global_scope_has_uniform_configurations_only():
    tree = make_evaluator("lenet", n=12, scope=LayerScope.GLOBAL)
    assert tree.space.num_configurations == 16
    assert all(
        tree.space.configuration_of_choice_digits(tree.space.choice_digits_at_index(index)).is_uniform
        for index in range(16)
    )
    assert_equal_to_plain_passes(tree, [tree.space.choice_digits_at_index(index) for index in range(16)])


def test_layers_of_other_methods_have_their_own_options():
    torch.manual_seed(0)
    makers = iter([BN, BLN, LN, BLN])
    network = LeNet((3, 12, 12), 10, lambda features: next(makers)(features, batch_size=SIZE)).double().eval()
    inputs, targets = draw_examples("lenet", 12)
    tree = TreePerLayerEvaluator(
        network, list(iter_mini_batches_with_fillers(inputs, targets, SIZE)), estimate_populations(network, "lenet")
    )
    assert tree.space.num_options_per_choice == (4, 16, 4, 16)
    assert_equal_to_plain_passes(tree, draw_digits(tree.space, 20))
    uniform = tree.space.choice_digits_by_uniform_configuration()
    assert len(uniform) == 16
    assert {
        str(tree.space.configuration_of_choice_digits(digits))
        for code, digits in uniform.items()
        if str(code) == "TFTF"
    } == {"TF--.TFTF.--TF.TFTF"}


def test_mbn_layers_have_the_memory_as_a_source():
    torch.manual_seed(0)
    network = MLP((3, 8, 8), 10, partial(make_norm, "mbn"), widths=(12, 7)).double()
    inputs, targets = draw_examples("mlp", 24)
    for x, _ in iter_mini_batches_with_fillers(inputs, targets, SIZE):
        network.train()(x)
    network.eval()
    populations = memory_and_frozen_populations(network)
    tree = TreePerLayerEvaluator(network, list(iter_mini_batches_with_fillers(inputs, targets, SIZE)), populations)
    assert tree.space.num_options_per_choice == (9, 9)
    assert_equal_to_plain_passes(tree, [tree.space.choice_digits_at_index(index) for index in range(81)])


def memory_and_frozen_populations(network):
    layers = get_norms_by_name(network)
    inputs, _ = draw_examples("mlp", 48)
    moments = {
        **moments_by_estimate_from_training_history(layers),
        PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(network, inputs.split(SIZE)),
    }
    return compute_populations_of_layers(layers, moments, Correction.BESSEL, per_slot=False)


def test_undefined_options_are_excluded_with_a_reason():
    network = build_network("mlp", batch_size=1)
    inputs, targets = draw_examples("mlp", 4)
    populations = frozen_populations(network, inputs.split(1))
    tree = TreePerLayerEvaluator(network, list(iter_mini_batches_with_fillers(inputs, targets, 1)), populations)
    assert tree.space.num_options_per_choice == (4, 4)
    assert "m = 1" in tree.excluded["layers.3"]["FTFF"]
    assert_equal_to_plain_passes(tree, [tree.space.choice_digits_at_index(index) for index in range(16)])


def test_codes_digits_and_indices_correspond():
    space = make_evaluator("mlp").space
    for index in (0, 7, 200, 255):
        digits = space.choice_digits_at_index(index)
        assert space.index_of_choice_digits(digits) == index
        configuration = space.configuration_of_choice_digits(digits)
        assert space.choice_digits_of_configuration(PerLayerConfiguration.parse(str(configuration))) == digits
    with pytest.raises(ValueError, match=r"1 layers, .* 2"):
        space.choice_digits_of_configuration(PerLayerConfiguration.parse("TTTT"))
    with pytest.raises(ValueError, match=r"layers\.3 has no option TT--"):
        space.choice_digits_of_configuration(PerLayerConfiguration.parse("TT--.TTTT"))
