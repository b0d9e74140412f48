"""Per-layer configurations: a word for each normalization layer, and the space of all of them.

Written as the words of the layers in the order in which the network reaches them, with dots between: with four BLN
layers `TTFF.FTFF.TTTT.FFFF` is one of 16⁴ = 65,536. Layers can be tied together: then they share one choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from bln_search.core.configuration import InferenceConfiguration, Method, Statistic, all_configurations

SEPARATOR = "."


@dataclass(frozen=True, order=True)
class PerLayerConfiguration:
    """One inference configuration for each normalization layer."""

    words: tuple[InferenceConfiguration, ...]

    def __str__(self) -> str:
        return SEPARATOR.join(str(word) for word in self.words)

    @staticmethod
    def parse(text: str) -> PerLayerConfiguration:
        """What `str` wrote. Raises ValueError, saying what is wrong."""
        return PerLayerConfiguration(tuple(InferenceConfiguration(word) for word in text.split(SEPARATOR)))

    @property
    def uniform(self) -> bool:
        """Do all layers have the same word?"""
        return len(set(self.words)) == 1

    @property
    def deterministic(self) -> bool:
        """Is the answer to an example independent of the other examples of its mini-batch?"""
        return all(word.deterministic for word in self.words)


@dataclass(frozen=True)
class Choice:
    """What is chosen once: the word of a layer, or of several that are tied together.

    layers: their positions in the network. options: for each option, the word of each of these layers.
    """

    name: str
    layers: tuple[int, ...]
    options: tuple[tuple[InferenceConfiguration, ...], ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Each option in one word: for each statistic the source that a layer has which keeps it."""
        return tuple("".join(map(max, zip(*map(str, words), strict=True))) for words in self.options)


@dataclass(frozen=True)
class ConfigurationSpace:
    """Every way to choose. layers: their names, in the order in which the network reaches them.

    choices stand in the order of their first layers. A configuration is a tuple of digits, one option for each choice;
    its index counts with the last choice running fastest.
    """

    layers: tuple[str, ...]
    choices: tuple[Choice, ...]

    @cached_property
    def radices(self) -> tuple[int, ...]:
        """The number of options of each choice."""
        return tuple(len(choice.options) for choice in self.choices)

    @property
    def size(self) -> int:
        """How many configurations there are."""
        return prod(self.radices)

    @cached_property
    def choice_of(self) -> tuple[int, ...]:
        """For each layer, the choice that decides it."""
        found = {layer: place for place, choice in enumerate(self.choices) for layer in choice.layers}
        return tuple(found[layer] for layer in range(len(self.layers)))

    def words(self, digits: Sequence[int]) -> PerLayerConfiguration:
        """The configuration of these digits."""
        words: list[InferenceConfiguration | None] = [None] * len(self.layers)
        for choice, digit in zip(self.choices, digits, strict=True):
            for layer, word in zip(choice.layers, choice.options[digit], strict=True):
                words[layer] = word
        return PerLayerConfiguration(tuple(word for word in words if word is not None))

    def digits(self, configuration: PerLayerConfiguration) -> tuple[int, ...]:
        """The digits of a configuration. Raises ValueError where the space does not hold it."""
        if len(configuration.words) != len(self.layers):
            raise ValueError(
                f"{configuration} has {len(configuration.words)} words, the network {len(self.layers)} normalization "
                f"layers: {', '.join(self.layers)}"
            )
        digits = []
        for choice in self.choices:
            wanted = tuple(configuration.words[layer] for layer in choice.layers)
            if wanted not in choice.options:
                said = SEPARATOR.join(dict.fromkeys(str(word) for word in wanted))
                raise ValueError(f"{choice.name} has no option {said}: it has {', '.join(choice.labels)}")
            digits.append(choice.options.index(wanted))
        return tuple(digits)

    def index(self, digits: Sequence[int]) -> int:
        """The place of these digits among all configurations."""
        index = 0
        for digit, radix in zip(digits, self.radices, strict=True):
            index = index * radix + digit
        return index

    def at(self, index: int) -> tuple[int, ...]:
        """The digits at that place."""
        digits = []
        for radix in reversed(self.radices):
            index, digit = divmod(index, radix)
            digits.append(digit)
        return tuple(reversed(digits))

    def uniform(self) -> dict[InferenceConfiguration, tuple[int, ...]]:
        """Digits of the configurations in which all layers follow one word, by that word.

        A layer that keeps only some of the statistics follows the part of the word that it reads. Words of which a
        layer has no such option are left out.
        """
        words = {str(word) for choice in self.choices for words in choice.options for word in words}
        there = [{word[place] for word in words} for place in range(len(Statistic))]
        letters = [[letter for letter in "MTF" if letter in found] or ["-"] for found in there]
        found = {}
        for word in map("".join, product(*letters)):
            digits = [_following(choice, word) for choice in self.choices]
            if word in _WORDS and None not in digits:
                found[_WORDS[word]] = tuple(digit for digit in digits if digit is not None)
        return found


_WORDS = {str(word): word for method in Method for word in all_configurations(method)}


def _following(choice: Choice, word: str) -> int | None:
    """The option of `choice` in which every layer follows `word`."""
    for place, words in enumerate(choice.options):
        if all(all(own in ("-", letter) for own, letter in zip(str(one), word, strict=True)) for one in words):
            return place
    return None
