"""The inference configuration: for each statistic of a normalization layer, where its value comes from.

Written as four letters in the order E_B Std_B E_F Std_F: `T` population, `F` the mini-batch at hand, `-` a statistic
that the method does not have. So BLN has 16 words (`TTFF`, `FTFF`, ...), BN four (`TT--`), LN four (`--FF`).

Source: Ziaee & Çano 2022, Batch Layer Normalization, Algorithm 2 steps 9 and 12, Eq. 18-21.
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


BATCH_STATISTICS = (Statistic.BATCH_MEAN, Statistic.BATCH_DEVIATION)
FEATURE_STATISTICS = (Statistic.FEATURE_MEAN, Statistic.FEATURE_DEVIATION)


class Method(StrEnum):
    """A normalization method."""

    BN = "bn"
    LN = "ln"
    BLN = "bln"

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """The statistics this method keeps."""
        return _STATISTICS[self]


_STATISTICS: dict[Method, tuple[Statistic, ...]] = {
    Method.BN: BATCH_STATISTICS,
    Method.LN: FEATURE_STATISTICS,
    Method.BLN: BATCH_STATISTICS + FEATURE_STATISTICS,
}


class Source(StrEnum):
    """Where a statistic comes from at inference."""

    POPULATION = "T"
    MINI_BATCH = "F"
    ABSENT = "-"


@dataclass(frozen=True, order=True)
class InferenceConfiguration:
    """One source for each of the four statistics."""

    word: str

    def __post_init__(self) -> None:
        """Refuse anything that is not one of the words of a method."""
        pairs = self.word[:2], self.word[2:]
        letters = set(self.word)
        whole = all(pair == "--" or "-" not in pair for pair in pairs)
        if len(self.word) != len(Statistic) or not letters <= set("TF-") or letters == {"-"} or not whole:
            raise ValueError(
                f"{self.word!r} is not an inference configuration: write four letters for E_B Std_B E_F Std_F, "
                "T (population) or F (mini-batch), `--` for a pair the method does not have, for example TTFF or TT--"
            )

    def __str__(self) -> str:
        return self.word

    def source(self, statistic: Statistic) -> Source:
        """Where `statistic` comes from."""
        return self.sources[statistic]

    @cached_property
    def sources(self) -> dict[Statistic, Source]:
        """Every statistic with its source."""
        return {statistic: Source(letter) for statistic, letter in zip(Statistic, self.word, strict=True)}

    @property
    def method(self) -> Method:
        """The method whose statistics this configuration names."""
        if self.word.startswith("--"):
            return Method.LN
        return Method.BN if self.word.endswith("--") else Method.BLN

    @property
    def uses_population(self) -> bool:
        """Does any statistic come from the population?"""
        return Source.POPULATION in self.sources.values()

    @property
    def deterministic(self) -> bool:
        """Is the answer to an example independent of the other examples of its mini-batch?

        A feature statistic taken from the mini-batch is the example's own, so only the first pair counts.
        """
        return Source.MINI_BATCH not in (self.source(statistic) for statistic in BATCH_STATISTICS)

    def restricted_to(self, method: Method) -> InferenceConfiguration:
        """The part of this configuration that a layer of `method` reads."""
        kept = method.statistics
        return InferenceConfiguration(
            "".join(self.sources[statistic] if statistic in kept else Source.ABSENT for statistic in Statistic)
        )


def all_configurations(method: Method) -> tuple[InferenceConfiguration, ...]:
    """Every configuration of `method`, population first: 16 for BLN, four for BN and LN."""
    choices = ["TF" if statistic in method.statistics else "-" for statistic in Statistic]
    return tuple(InferenceConfiguration("".join(letters)) for letters in product(*choices))


def mini_batch_configuration(method: Method) -> InferenceConfiguration:
    """Every statistic from the mini-batch at hand, as in training: FFFF for BLN, FF-- for BN, --FF for LN."""
    return all_configurations(method)[-1]
