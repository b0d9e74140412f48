"""The effect of each switch of each choice on the loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bln_search.core.method import Statistic
from bln_search.core.per_layer import ConfigurationSpace, LayerConfigurationOptions
from bln_search.search.layers.loss_source import Floats

Effects = Mapping[tuple[str, str], float]
"""Loss with a switch at T minus loss with it at F , by choice and statistic, for switches with both options."""


def marginal_switch_effects(space: ConfigurationSpace, means: Floats) -> Effects:
    """Effects averaged over all configurations.

    Args:
        space: The configurations.
        means: Mean loss of every configuration in the order of the indices, (configurations,).
    """
    table = means.reshape(space.num_options_per_choice)
    effects = {}
    for axis, choice in enumerate(space.choices):
        others = tuple(other for other in range(table.ndim) if other != axis)
        option_means = table.mean(axis=others)
        for statistic, pairs in _iter_option_pairs_by_statistic(choice):
            with np.errstate(invalid="ignore"):  # the difference of two infinite means
                effect = np.mean([option_means[at_t] - option_means[at_f] for at_t, at_f in pairs])
            if np.isfinite(effect):
                effects[choice.name, str(statistic)] = float(effect)
    return effects


def list_configurations_with_one_flip(space: ConfigurationSpace, digits: Sequence[int]) -> list[tuple[int, ...]]:
    """The configurations that differ from `digits` in one switch of one choice."""
    return [
        (*digits[:index], option, *digits[index + 1 :])
        for index, _, _, option in _iter_flippable_switches(space, digits)
    ]


def local_switch_effects(
    space: ConfigurationSpace, digits: Sequence[int], loss: float, flipped: Sequence[float]
) -> Effects:
    """Effects around one configuration.

    Args:
        space: The configurations.
        digits: The configuration.
        loss: Its mean loss.
        flipped: Mean losses of its `list_configurations_with_one_flip`, in their order.
    """
    effects = {}
    for (index, statistic, at_population, _), flipped_loss in zip(
        _iter_flippable_switches(space, digits), flipped, strict=True
    ):
        effect = loss - flipped_loss if at_population else flipped_loss - loss
        if np.isfinite(effect):
            effects[space.choices[index].name, str(statistic)] = float(effect)
    return effects


def _iter_flippable_switches(
    space: ConfigurationSpace, digits: Sequence[int]
) -> Iterator[tuple[int, Statistic, bool, int]]:
    """For each switch that can flip: index of its choice, statistic, whether it is at T, and the flipped option."""
    for index, (choice, digit) in enumerate(zip(space.choices, digits, strict=True)):
        for statistic, pairs in _iter_option_pairs_by_statistic(choice):
            for at_t, at_f in pairs:
                if digit in (at_t, at_f):
                    yield index, statistic, digit == at_t, at_f if digit == at_t else at_t


def _iter_option_pairs_by_statistic(
    choice: LayerConfigurationOptions,
) -> Iterator[tuple[Statistic, list[tuple[int, int]]]]:
    """For each statistic the pairs of options that differ in this statistic only: first T, then F."""
    labels = choice.option_codes
    for position, statistic in enumerate(Statistic):
        pairs = [
            (option, labels.index(flipped))
            for option, label in enumerate(labels)
            if label[position] == "T" and (flipped := f"{label[:position]}F{label[position + 1 :]}") in labels
        ]
        if pairs:
            yield statistic, pairs
