"""Per-layer configurations: an inference configuration for each normalization layer, and the space of all of them.

Written as the codes of the layers' configurations in the order in which the network reaches the layers, separated by
dots: with four BLN layers `TTFF.FTFF.TTTT.FFFF` is one of 16⁴ = 65,536. Tied layers share one choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from bln_search.core.configuration import InferenceConfiguration, enumerate_configurations
from bln_search.core.method import Method, Statistic, StatisticSource

SEPARATOR = "."


@dataclass(frozen=True, order=True)
class PerLayerConfiguration:
    """One inference configuration for each normalization layer."""

    configurations: tuple[InferenceConfiguration, ...]

    def __str__(self) -> str:
        return SEPARATOR.join(str(configuration) for configuration in self.configurations)

    @staticmethod
    def parse(text: str) -> PerLayerConfiguration:
        """The inverse of `str`. Raises ValueError for an invalid code."""
        return PerLayerConfiguration(tuple(InferenceConfiguration(code) for code in text.split(SEPARATOR)))

    @property
    def is_uniform(self) -> bool:
        """Do all layers have the same configuration?"""
        return len(set(self.configurations)) == 1

    @property
    def is_deterministic(self) -> bool:
        """Is the answer to an example independent of the other examples of its mini-batch?"""
        return all(configuration.is_deterministic for configuration in self.configurations)


@dataclass(frozen=True)
class LayerConfigurationOptions:
    """One decision of a search: the configuration of a layer, or of several tied layers.

    Attributes:
        name: The layer or the group of layers.
        layers: Positions of the layers in the network.
        options: For each option, the configuration of each of these layers.
        is_fixed: The layers keep their configuration, the only option; no search chooses it.
    """

    name: str
    layers: tuple[int, ...]
    options: tuple[tuple[InferenceConfiguration, ...], ...]
    is_fixed: bool = False

    @property
    def option_codes(self) -> tuple[str, ...]:
        """The code of each option: for each statistic the source in the layers that have this statistic."""
        return tuple("".join(map(max, zip(*map(str, option), strict=True))) for option in self.options)


@dataclass(frozen=True)
class ConfigurationSpace:
    """All per-layer configurations of a network.

    A configuration is a tuple of digits, one option for each choice. Its index is the mixed-radix number of its digits;
    the last choice varies fastest.

    Attributes:
        layers: Names of the layers in the order in which the network reaches them.
        choices: The choices in the order of their first layers.
    """

    layers: tuple[str, ...]
    choices: tuple[LayerConfigurationOptions, ...]

    @cached_property
    def num_options_per_choice(self) -> tuple[int, ...]:
        """The number of options of each choice."""
        return tuple(len(choice.options) for choice in self.choices)

    @property
    def num_configurations(self) -> int:
        """The number of configurations."""
        return prod(self.num_options_per_choice)

    @cached_property
    def choice_index_per_layer(self) -> tuple[int, ...]:
        """For each layer the index of its choice."""
        choice_of_layer = {layer: index for index, choice in enumerate(self.choices) for layer in choice.layers}
        return tuple(choice_of_layer[layer] for layer in range(len(self.layers)))

    def configuration_of_choice_digits(self, digits: Sequence[int]) -> PerLayerConfiguration:
        """The configuration of these digits."""
        by_layer: dict[int, InferenceConfiguration] = {}
        for choice, digit in zip(self.choices, digits, strict=True):
            by_layer.update(zip(choice.layers, choice.options[digit], strict=True))
        return PerLayerConfiguration(tuple(by_layer[layer] for layer in range(len(self.layers))))

    def choice_digits_of_configuration(self, configuration: PerLayerConfiguration) -> tuple[int, ...]:
        """The digits of a configuration. Raises ValueError if the space does not contain it."""
        if len(configuration.configurations) != len(self.layers):
            raise ValueError(
                f"{configuration} has configurations for {len(configuration.configurations)} layers, the network has "
                f"{len(self.layers)} normalization layers: {', '.join(self.layers)}"
            )
        digits = []
        for choice in self.choices:
            option = tuple(configuration.configurations[layer] for layer in choice.layers)
            if option not in choice.options:
                code = SEPARATOR.join(dict.fromkeys(str(configuration) for configuration in option))
                raise ValueError(f"{choice.name} has no option {code}: it has {', '.join(choice.option_codes)}")
            digits.append(choice.options.index(option))
        return tuple(digits)

    def index_of_choice_digits(self, digits: Sequence[int]) -> int:
        """The index of these digits."""
        index = 0
        for digit, radix in zip(digits, self.num_options_per_choice, strict=True):
            index = index * radix + digit
        return index

    def choice_digits_at_index(self, index: int) -> tuple[int, ...]:
        """The digits of this index."""
        digits = []
        for radix in reversed(self.num_options_per_choice):
            index, digit = divmod(index, radix)
            digits.append(digit)
        return tuple(reversed(digits))

    def choice_digits_by_uniform_configuration(self) -> dict[InferenceConfiguration, tuple[int, ...]]:
        """Digits of the uniform configurations, by the configuration that all layers share.

        Layers of fixed choices keep theirs. A layer with only some of the statistics takes the part of the
        configuration that it reads. A configuration is missing if a layer has no such option.
        """
        free = [choice for choice in self.choices if not choice.is_fixed]
        codes = {str(configuration) for choice in free for option in choice.options for configuration in option}
        letters_present = [{code[position] for code in codes} for position in range(len(Statistic))]
        letters = [[letter for letter in _LETTERS if letter in present] or ["-"] for present in letters_present]
        digits_by_configuration = {}
        for code in map("".join, product(*letters)):
            digits = [0 if choice.is_fixed else _find_matching_option_index(choice, code) for choice in self.choices]
            if code in _CONFIGURATIONS and None not in digits:
                digits_by_configuration[_CONFIGURATIONS[code]] = tuple(digit for digit in digits if digit is not None)
        return digits_by_configuration


_OWN_LETTERS = dict.fromkeys(source for method in Method for source in method.method_specific_sources)

_LETTERS = "".join((*_OWN_LETTERS, StatisticSource.POPULATION, StatisticSource.MINI_BATCH, StatisticSource.BLEND))

_CONFIGURATIONS = {
    str(configuration): configuration
    for method in Method
    for configuration in enumerate_configurations(method, method.method_specific_sources)
}


def _find_matching_option_index(choice: LayerConfigurationOptions, code: str) -> int | None:
    """The option of `choice` in which every layer has the sources of `code`."""
    for index, option in enumerate(choice.options):
        if all(
            all(source in ("-", letter) for source, letter in zip(str(configuration), code, strict=True))
            for configuration in option
        ):
            return index
    return None
