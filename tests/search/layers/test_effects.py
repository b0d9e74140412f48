"""Effects of switches: averaged over all configurations, or local to one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bln_search.core.configuration import Statistic
from bln_search.search.layers.effects import flips, local_effects, marginal_effects
from tests.search.layers.tables import choice, plain_space, space_of

SPACES = {
    "plain": plain_space(2),
    "tied": space_of(choice("ends", [0, 2]), choice("middle", [1])),
    "options left out": space_of(choice("a", [0], keep=6), choice("b", [1])),
    "other methods": space_of(choice("a", [0], "bn"), choice("b", [1], "ln"), choice("c", [2], "mbn")),
    "nothing to choose": space_of(choice("a", [0], keep=1), choice("b", [1], keep=1)),
}
every_space = pytest.mark.parametrize("name", SPACES)


def turned(space, digits, place, statistic):
    """The digits with that switch of that choice turned between T and F; None where it is neither, or left out."""
    labels = space.choices[place].labels
    letter = list(Statistic).index(statistic)
    label = labels[digits[place]]
    other = {"T": "F", "F": "T"}.get(label[letter])
    if other is None or (wanted := label[:letter] + other + label[letter + 1 :]) not in labels:
        return None
    return (*digits[:place], labels.index(wanted), *digits[place + 1 :])


def switches(space):
    return itertools.product(range(len(space.choices)), Statistic)


def at_population(space, digits, place, statistic):
    return space.choices[place].labels[digits[place]][list(Statistic).index(statistic)] == "T"


@every_space
def test_marginal_effect_is_the_mean_difference(name):
    space = SPACES[name]
    means = np.random.default_rng(0).random(space.size)
    expected = {}
    for place, statistic in switches(space):
        differences = []
        for index in range(space.size):
            digits = space.digits_at(index)
            other = turned(space, digits, place, statistic)
            if other is not None and at_population(space, digits, place, statistic):
                differences.append(means[index] - means[space.index(other)])
        if differences:
            expected[space.choices[place].name, str(statistic)] = np.mean(differences)
    assert marginal_effects(space, means) == pytest.approx(expected)
    assert bool(expected) == (name != "nothing to choose")


@every_space
def test_local_effects_are_differences_of_one_switch(name):
    space = SPACES[name]
    means = np.random.default_rng(1).random(space.size)
    for index in range(0, space.size, 7):
        digits = space.digits_at(index)
        near, expected = flips(space, digits), {}
        for place, statistic in switches(space):
            other = turned(space, digits, place, statistic)
            if other is not None:
                difference = means[index] - means[space.index(other)]
                sign = 1 if at_population(space, digits, place, statistic) else -1
                expected[space.choices[place].name, str(statistic)] = sign * difference
                assert other in near
        assert len(near) == len(expected)
        effects = local_effects(space, digits, means[index], [means[space.index(row)] for row in near])
        assert effects == pytest.approx(expected)


def test_excluded_option_has_no_effect():
    """Of FTFT, FTFF, FFTT, FFTF, FFFT and FFFF: E_B is never at T, Std_B only beside FT and FF."""
    space = space_of(choice("a", [0], keep=6))
    assert space.choices[0].labels == ("FTFT", "FTFF", "FFTT", "FFTF", "FFFT", "FFFF")
    means = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    effects = marginal_effects(space, means)
    assert effects == pytest.approx(
        {("a", "Std_B"): (1 - 16 + 2 - 32) / 2, ("a", "E_F"): (4 - 16 + 8 - 32) / 2, ("a", "Std_F"): (-1 - 4 - 16) / 3}
    )


def test_infinite_losses_omit_their_switches_silently():
    space = plain_space(2)
    means = np.random.default_rng(0).random(space.size)
    means[[3, 40, 200]] = np.inf
    assert all(np.isfinite(value) for value in marginal_effects(space, means).values())
    assert marginal_effects(space, np.full(space.size, np.inf)) == {}
    assert local_effects(space, (0, 0), np.inf, [np.inf] * len(flips(space, (0, 0)))) == {}
