"""Digits, indices and codes of per-layer configurations convert into one another in every space."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.method import Method
from bln_search.core.per_layer import ConfigurationSpace, LayerConfigurationOptions, PerLayerConfiguration
from tests.support.per_layer_spaces import spaces


@given(spaces(), st.data())
def test_index_digits_and_codes_convert_into_one_another(space, data):
    index = data.draw(st.integers(0, space.num_configurations - 1))
    digits = space.choice_digits_at_index(index)
    assert space.index_of_choice_digits(digits) == index
    assert all(digit < radix for digit, radix in zip(digits, space.num_options_per_choice, strict=True))
    configuration = space.configuration_of_choice_digits(digits)
    assert len(configuration.configurations) == len(space.layers)
    assert space.choice_digits_of_configuration(configuration) == digits
    assert space.choice_digits_of_configuration(PerLayerConfiguration.parse(str(configuration))) == digits


@given(spaces())
def test_every_layer_belongs_to_one_choice(space):
    for layer, choice in enumerate(space.choice_index_per_layer):
        assert layer in space.choices[choice].layers
    assert sum(len(choice.layers) for choice in space.choices) == len(space.layers)


@given(spaces())
def test_labels_of_a_choice_are_unique(space):
    for choice in space.choices:
        assert len(set(choice.option_codes)) == len(choice.options)


@given(spaces())
def test_uniform_configurations_share_one_code(space):
    """The configuration with every statistic from the mini-batch is always one of them."""
    uniform = space.choice_digits_by_uniform_configuration()
    assert {"FFFF", "FF--", "--FF"} & {str(code) for code in uniform}
    for code, digits in uniform.items():
        for configuration in space.configuration_of_choice_digits(digits).configurations:
            assert all(
                own_letter in ("-", code_letter)
                for own_letter, code_letter in zip(str(configuration), str(code), strict=True)
            )
    assert len(set(uniform.values())) == len(uniform)


@given(spaces(), st.data())
def test_every_configuration_with_one_code_is_uniform(space, data):
    """The other way round: a code that every choice has an option for is not forgotten."""
    positions = {
        position
        for choice in space.choices
        for option in choice.options
        for code in option
        for position in fixed_positions(code)
    }
    code = data.draw(st.sampled_from(all_configurations(Method.BLN)))
    restricted_code = "".join(letter if position in positions else "-" for position, letter in enumerate(str(code)))
    expected_digits = [follow(choice, restricted_code) for choice in space.choices]
    uniform_digits = {
        str(uniform_code): digits for uniform_code, digits in space.choice_digits_by_uniform_configuration().items()
    }
    assert uniform_digits.get(restricted_code) == (None if None in expected_digits else tuple(expected_digits))


def fixed_positions(code):
    return [position for position, letter in enumerate(str(code)) if letter != "-"]


def follow(choice, restricted_code):
    for digit, codes in enumerate(choice.options):
        if all(
            str(code)[position] == restricted_code[position] for code in codes for position in fixed_positions(code)
        ):
            return digit
    return None


def test_layers_without_a_shared_statistic_have_uniform_codes():
    layers = [LayerConfigurationOptions("a", (0,), options("bn")), LayerConfigurationOptions("b", (1,), options("ln"))]
    uniform = ConfigurationSpace(("a", "b"), tuple(layers)).choice_digits_by_uniform_configuration()
    assert len(uniform) == 16
    assert uniform[InferenceConfiguration("TFFT")] == (1, 2)


def options(method):
    return tuple((code,) for code in all_configurations(Method(method)))


def test_uniform_and_deterministic_follow_from_the_codes():
    assert PerLayerConfiguration.parse("TTFF.TTFF").is_uniform
    assert not PerLayerConfiguration.parse("TTFF.TTTT").is_uniform
    assert PerLayerConfiguration.parse("TTFF.TTTT.--FF").is_deterministic
    assert not PerLayerConfiguration.parse("TTFF.TFTT").is_deterministic
    with pytest.raises(ValueError, match="'TTX' is not an inference configuration"):
        PerLayerConfiguration.parse("TTFF.TTX")
