"""Effects of switches: averaged over all configurations, or local to one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bln_search.core.method import Statistic
from bln_search.search.layers.effects import (
    list_configurations_with_one_flip,
    local_switch_effects,
    marginal_switch_effects,
)
from tests.search.layers.tables import choice, plain_space, space_of

SPACES = {
    "plain": plain_space(2),
    "tied": space_of(choice("ends", [0, 2]), choice("middle", [1])),
    "options left out": space_of(choice("a", [0], max_options=6), choice("b", [1])),
    "other methods": space_of(choice("a", [0], "bn"), choice("b", [1], "ln"), choice("c", [2], "mbn")),
    "nothing to choose": space_of(choice("a", [0], max_options=1), choice("b", [1], max_options=1)),
}
every_space = pytest.mark.parametrize("name", SPACES)


def switch_digits(space, digits, choice_index, statistic):
    """The digits with that switch of that choice turned between T and F; None where it is neither, or left out."""
    labels = space.choices[choice_index].option_codes
    letter = list(Statistic).index(statistic)
    label = labels[digits[choice_index]]
    opposite = {"T": "F", "F": "T"}.get(label[letter])
    if opposite is None or (target_label := label[:letter] + opposite + label[letter + 1 :]) not in labels:
        return None
    return (*digits[:choice_index], labels.index(target_label), *digits[choice_index + 1 :])


def switches(space):
    return itertools.product(range(len(space.choices)), Statistic)


def at_population(space, digits, choice_index, statistic):
    return space.choices[choice_index].option_codes[digits[choice_index]][list(Statistic).index(statistic)] == "T"


@every_space
def test_marginal_effect_is_the_mean_difference(name):
    space = SPACES[name]
    means = np.random.default_rng(0).random(space.num_configurations)
    expected = {}
    for choice_index, statistic in switches(space):
        differences = []
        for index in range(space.num_configurations):
            digits = space.choice_digits_at_index(index)
            switched = switch_digits(space, digits, choice_index, statistic)
            if switched is not None and at_population(space, digits, choice_index, statistic):
                differences.append(means[index] - means[space.index_of_choice_digits(switched)])
        if differences:
            expected[space.choices[choice_index].name, str(statistic)] = np.mean(differences)
    assert marginal_switch_effects(space, means) == pytest.approx(expected)
    assert bool(expected) == (name != "nothing to choose")


@every_space
def test_local_effects_are_differences_of_one_switch(name):
    space = SPACES[name]
    means = np.random.default_rng(1).random(space.num_configurations)
    for index in range(0, space.num_configurations, 7):
        digits = space.choice_digits_at_index(index)
        neighbours, expected = list_configurations_with_one_flip(space, digits), {}
        for choice_index, statistic in switches(space):
            switched = switch_digits(space, digits, choice_index, statistic)
            if switched is not None:
                difference = means[index] - means[space.index_of_choice_digits(switched)]
                sign = 1 if at_population(space, digits, choice_index, statistic) else -1
                expected[space.choices[choice_index].name, str(statistic)] = sign * difference
                assert switched in neighbours
        assert len(neighbours) == len(expected)
        effects = local_switch_effects(
            space, digits, means[index], [means[space.index_of_choice_digits(row)] for row in neighbours]
        )
        assert effects == pytest.approx(expected)


def test_excluded_option_has_no_effect():
    """Of FTFT, FTFF, FFTT, FFTF, FFFT and FFFF: E_B is never at T, Std_B only beside FT and FF."""
    space = space_of(choice("a", [0], max_options=6))
    assert space.choices[0].option_codes == ("FTFT", "FTFF", "FFTT", "FFTF", "FFFT", "FFFF")
    means = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    effects = marginal_switch_effects(space, means)
    assert effects == pytest.approx(
        {("a", "Std_B"): (1 - 16 + 2 - 32) / 2, ("a", "E_F"): (4 - 16 + 8 - 32) / 2, ("a", "Std_F"): (-1 - 4 - 16) / 3}
    )


def test_infinite_losses_omit_their_switches_silently():
    space = plain_space(2)
    means = np.random.default_rng(0).random(space.num_configurations)
    means[[3, 40, 200]] = np.inf
    assert all(np.isfinite(value) for value in marginal_switch_effects(space, means).values())
    assert marginal_switch_effects(space, np.full(space.num_configurations, np.inf)) == {}
    assert (
        local_switch_effects(space, (0, 0), np.inf, [np.inf] * len(list_configurations_with_one_flip(space, (0, 0))))
        == {}
    )
