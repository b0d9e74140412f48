"""The inference configuration: for each statistic of a normalization layer, where its value comes from.

Written as four letters in the order E_B Std_B E_F Std_F: `T` population, `F` the mini-batch at hand, `M` the memory of
recent training mini-batches, `-` a statistic that the method does not have. So BLN has 16 words (`TTFF`, `FTFF`, ...),
BN and BRN four (`TT--`), LN four (`--FF`), MBN nine (`MM--`, `MT--`, ...).

Sources: Ziaee & Çano 2022, Batch Layer Normalization, Algorithm 2 steps 9 and 12, Eq. 18-21; Guo et al. 2018, MBN.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import product


class Statistic(StrEnum):
    """The four statistics of BLN, in the order a configuration names them."""

    BATCH_MEAN = "E_B"
    BATCH_DEVIATION = "Std_B"
    FEATURE_MEAN = "E_F"
    FEATURE_DEVIATION = "Std_F"


_PLACES = {statistic: place for place, statistic in enumerate(Statistic)}

BATCH_STATISTICS = (Statistic.BATCH_MEAN, Statistic.BATCH_DEVIATION)
FEATURE_STATISTICS = (Statistic.FEATURE_MEAN, Statistic.FEATURE_DEVIATION)


class Method(StrEnum):
    """A normalization method."""

    BN = "bn"
    LN = "ln"
    BLN = "bln"
    MBN = "mbn"
    BRN = "brn"

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """The statistics this method keeps."""
        return _STATISTICS[self]

    @property
    def sources(self) -> str:
        """The letters of the sources its statistics may have, population and memory first."""
        return "MTF" if self is Method.MBN else "TF"


_STATISTICS: dict[Method, tuple[Statistic, ...]] = {
    Method.BN: BATCH_STATISTICS,
    Method.LN: FEATURE_STATISTICS,
    Method.BLN: BATCH_STATISTICS + FEATURE_STATISTICS,
    Method.MBN: BATCH_STATISTICS,
    Method.BRN: BATCH_STATISTICS,
}


class Source(StrEnum):
    """Where a statistic comes from at inference."""

    POPULATION = "T"
    MINI_BATCH = "F"
    MEMORY = "M"
    ABSENT = "-"


_SOURCES = {str(source): source for source in Source}


@dataclass(frozen=True, order=True)
class InferenceConfiguration:
    """One source for each of the four statistics."""

    word: str

    def __post_init__(self) -> None:
        """Refuse anything that is not one of the words of a method."""
        letters = set(self.word)
        known = len(self.word) == len(Statistic) and letters <= set("MTF-")
        if not known or not any(self.fits(method) for method in Method):
            raise ValueError(
                f"{self.word!r} is not an inference configuration: write four letters for E_B Std_B E_F Std_F, "
                "T (population) or F (mini-batch), `--` for a pair the method does not have, for example TTFF or TT--; "
                "MBN also has M (memory), for example MM--"
            )

    def __str__(self) -> str:
        return self.word

    def source(self, statistic: Statistic) -> Source:
        """Where `statistic` comes from; read off the word, by whose value compiled networks tell configurations."""
        return _SOURCES[self.word[_PLACES[statistic]]]

    @cached_property
    def sources(self) -> dict[Statistic, Source]:
        """Every statistic with its source."""
        return {statistic: Source(letter) for statistic, letter in zip(Statistic, self.word, strict=True)}

    def fits(self, method: Method) -> bool:
        """Does this configuration name the statistics of `method`, no more and no fewer, with sources it has?"""
        kept = method.statistics
        return all(
            letter in (method.sources if statistic in kept else Source.ABSENT)
            for statistic, letter in zip(Statistic, self.word, strict=True)
        )

    @property
    def uses_population(self) -> bool:
        """Does any statistic come from the population?"""
        return Source.POPULATION in self.sources.values()

    @property
    def uses_memory(self) -> bool:
        """Does any statistic come from the memory?"""
        return Source.MEMORY in self.sources.values()

    @property
    def deterministic(self) -> bool:
        """Is the answer to an example independent of the other examples of its mini-batch?

        A feature statistic taken from the mini-batch is the example's own, so only the first pair counts.
        """
        return Source.MINI_BATCH not in (self.source(statistic) for statistic in BATCH_STATISTICS)

    @property
    def without_population(self) -> InferenceConfiguration:
        """The same with the mini-batch in place of the population."""
        return InferenceConfiguration(self.word.replace(Source.POPULATION, Source.MINI_BATCH))

    def restricted_to(self, method: Method) -> InferenceConfiguration:
        """The part of this configuration that a layer of `method` reads."""
        kept = method.statistics
        return InferenceConfiguration(
            "".join(self.sources[statistic] if statistic in kept else Source.ABSENT for statistic in Statistic)
        )


def all_configurations(method: Method) -> tuple[InferenceConfiguration, ...]:
    """Every configuration of `method`, population first: 16 for BLN, four for BN, BRN and LN, nine for MBN."""
    choices = [method.sources if statistic in method.statistics else "-" for statistic in Statistic]
    return tuple(InferenceConfiguration("".join(letters)) for letters in product(*choices))


def mini_batch_configuration(method: Method) -> InferenceConfiguration:
    """Every statistic from the mini-batch at hand: FFFF for BLN, FF-- for BN, MBN and BRN, --FF for LN."""
    return all_configurations(method)[-1]


def paper_configuration(method: Method) -> InferenceConfiguration:
    """The rule of the paper that a network is judged by while it trains: the memory for MBN, else the mini-batch."""
    return all_configurations(method)[0] if method is Method.MBN else mini_batch_configuration(method)
