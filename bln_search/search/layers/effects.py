"""What each switch of each choice does to the loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bln_search.core.configuration import Statistic
from bln_search.core.per_layer import Choice, ConfigurationSpace
from bln_search.search.layers.loss_source import Floats

Effects = Mapping[tuple[str, str], float]
"""Loss with the switch at T less that at F, by choice and statistic; a switch without such a pair is not there."""


def marginal_effects(space: ConfigurationSpace, means: Floats) -> Effects:
    """Averages over all configurations, from every mean loss in the order of the indices."""
    table = means.reshape(space.radices)
    found = {}
    for place, choice in enumerate(space.choices):
        others = tuple(axis for axis in range(table.ndim) if axis != place)
        of_option = table.mean(axis=others)
        for statistic, pairs in _switches(choice):
            with np.errstate(invalid="ignore"):  # of two infinite ones
                effect = np.mean([of_option[at] - of_option[other] for at, other in pairs])
            if np.isfinite(effect):
                found[choice.name, str(statistic)] = float(effect)
    return found


def flips(space: ConfigurationSpace, digits: Sequence[int]) -> list[tuple[int, ...]]:
    """A configuration with one switch of one choice turned, for each switch that can be."""
    return [(*digits[:place], other, *digits[place + 1 :]) for place, _, _, other in _around(space, digits)]


def local_effects(space: ConfigurationSpace, digits: Sequence[int], loss: float, flipped: Sequence[float]) -> Effects:
    """Around one configuration. flipped: mean losses of its `flips`."""
    found = {}
    for (place, statistic, at_population, _), other in zip(_around(space, digits), flipped, strict=True):
        effect = loss - other if at_population else other - loss
        if np.isfinite(effect):
            found[space.choices[place].name, str(statistic)] = float(effect)
    return found


def _around(space: ConfigurationSpace, digits: Sequence[int]) -> Iterator[tuple[int, Statistic, bool, int]]:
    """For each switch that can be turned: its choice, its name, whether it is at T, the option with it turned."""
    for place, (choice, digit) in enumerate(zip(space.choices, digits, strict=True)):
        for statistic, pairs in _switches(choice):
            for at, other in pairs:
                if digit in (at, other):
                    yield place, statistic, digit == at, other if digit == at else at


def _switches(choice: Choice) -> Iterator[tuple[Statistic, list[tuple[int, int]]]]:
    """For each statistic the pairs of options that differ in it alone, at T first."""
    labels = choice.labels
    for letter, statistic in enumerate(Statistic):
        pairs = [
            (place, labels.index(turned))
            for place, label in enumerate(labels)
            if label[letter] == "T" and (turned := f"{label[:letter]}F{label[letter + 1 :]}") in labels
        ]
        if pairs:
            yield statistic, pairs
