"""The inference configuration: for each statistic of a normalization layer, where its value comes from.

Its code has four letters in the order E_B Std_B E_F Std_F: `T` population, `F` present mini-batch, `M` memory of recent
training mini-batches, `B` a blend of population and mini-batch, `-` a statistic that the method does not have. So BLN
has 16 codes (`TTFF`, `FTFF`, ...), BN and BRN four (`TT--`), LN four (`--FF`), MBN nine (`MM--`, `MT--`, ...). Codes
with `B` exist for every method and are enumerated only where blends are asked for. A network without normalization has
the one code `----`.

Sources: Ziaee & Çano 2022, Batch Layer Normalization, Algorithm 2 steps 9 and 12, Eq. 18-21; Guo et al. 2018, MBN.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import product


class Statistic(StrEnum):
    """The four statistics of BLN, in the order of a configuration's code."""

    BATCH_MEAN = "E_B"
    BATCH_DEVIATION = "Std_B"
    FEATURE_MEAN = "E_F"
    FEATURE_DEVIATION = "Std_F"

    @property
    def label(self) -> str:
        """Its name in tables: `mini-batch mean`."""
        return _STATISTIC_LABELS[self][0]

    @property
    def description(self) -> str:
        """Its definition: `mean over the mini-batch`."""
        return _STATISTIC_LABELS[self][1]


_STATISTIC_LABELS = {
    Statistic.BATCH_MEAN: ("mini-batch mean", "mean over the mini-batch"),
    Statistic.BATCH_DEVIATION: ("mini-batch deviation", "standard deviation over the mini-batch"),
    Statistic.FEATURE_MEAN: ("feature mean", "mean over the features of an example"),
    Statistic.FEATURE_DEVIATION: ("feature deviation", "standard deviation over the features of an example"),
}

_POSITIONS = {statistic: position for position, statistic in enumerate(Statistic)}

BATCH_STATISTICS = (Statistic.BATCH_MEAN, Statistic.BATCH_DEVIATION)
FEATURE_STATISTICS = (Statistic.FEATURE_MEAN, Statistic.FEATURE_DEVIATION)


class Method(StrEnum):
    """A normalization method; `none` for a network without normalization."""

    BN = "bn"
    LN = "ln"
    BLN = "bln"
    MBN = "mbn"
    BRN = "brn"
    NONE = "none"

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """The statistics of this method."""
        return _STATISTICS[self]

    @property
    def has_batch_statistics(self) -> bool:
        """Does this method have statistics over the mini-batch?"""
        return any(statistic in BATCH_STATISTICS for statistic in self.statistics)

    @property
    def possible_source_letters(self) -> str:
        """The letters of the possible sources of its statistics, population and memory first."""
        return "MTF" if self is Method.MBN else "TF"


_STATISTICS: dict[Method, tuple[Statistic, ...]] = {
    Method.BN: BATCH_STATISTICS,
    Method.LN: FEATURE_STATISTICS,
    Method.BLN: BATCH_STATISTICS + FEATURE_STATISTICS,
    Method.MBN: BATCH_STATISTICS,
    Method.BRN: BATCH_STATISTICS,
    Method.NONE: (),
}


class Source(StrEnum):
    """The source of a statistic at inference."""

    POPULATION = "T"
    MINI_BATCH = "F"
    MEMORY = "M"
    BLEND = "B"
    ABSENT = "-"

    @property
    def label(self) -> str:
        """Its name: `population`."""
        return _SOURCE_LABELS[self]

    @property
    def css_name(self) -> str:
        """Its name in style sheets, one word."""
        return "blend" if self is Source.BLEND else self.label

    @property
    def reads_population(self) -> bool:
        """Does a statistic of this source read a population value?"""
        return self in (Source.POPULATION, Source.BLEND)

    @property
    def is_stored(self) -> bool:
        """Does a statistic of this source read a value that the layer stores?"""
        return self in (Source.POPULATION, Source.MEMORY, Source.BLEND)

    @property
    def reads_mini_batch(self) -> bool:
        """Is a statistic of this source computed, at least in part, from the present mini-batch?"""
        return self in (Source.MINI_BATCH, Source.BLEND)


_SOURCE_LABELS = {
    Source.POPULATION: "population",
    Source.MINI_BATCH: "mini-batch",
    Source.MEMORY: "memory",
    Source.BLEND: "blend of population and mini-batch",
    Source.ABSENT: "none",
}

_SOURCES = {str(source): source for source in Source}


@dataclass(frozen=True, order=True)
class InferenceConfiguration:
    """One source for each of the four statistics."""

    code: str

    def __post_init__(self) -> None:
        """Raise ValueError unless `code` is the code of a configuration of some method."""
        letters = set(self.code)
        is_well_formed = len(self.code) == len(Statistic) and letters <= set("MTFB-")
        if not is_well_formed or not any(self.fits(method) for method in Method):
            raise ValueError(
                f"{self.code!r} is not an inference configuration: write four letters for E_B Std_B E_F Std_F, "
                "T (population) or F (mini-batch), `--` for a pair the method does not have, for example TTFF or TT--; "
                "MBN also has M (memory), for example MM--; B is a blend of both, for example BB--; a network without "
                "normalization has the one configuration ----"
            )

    def __str__(self) -> str:
        return self.code

    def source(self, statistic: Statistic) -> Source:
        """The source of `statistic`. Read from `code`: torch.compile guards configurations by its value."""
        return _SOURCES[self.code[_POSITIONS[statistic]]]

    @cached_property
    def sources(self) -> dict[Statistic, Source]:
        """The source of every statistic."""
        return {statistic: Source(letter) for statistic, letter in zip(Statistic, self.code, strict=True)}

    def fits(self, method: Method) -> bool:
        """Does this configuration have exactly the statistics of `method`, with sources that the method has?"""
        statistics = method.statistics
        return all(
            letter in (method.possible_source_letters + Source.BLEND if statistic in statistics else Source.ABSENT)
            for statistic, letter in zip(Statistic, self.code, strict=True)
        )

    @property
    def uses_population(self) -> bool:
        """Does any statistic come from the population, alone or blended?"""
        return any(source.reads_population for source in self.sources.values())

    @property
    def uses_blend(self) -> bool:
        """Is any statistic a blend of population and mini-batch?"""
        return Source.BLEND in self.sources.values()

    @property
    def uses_memory(self) -> bool:
        """Does any statistic come from the memory?"""
        return Source.MEMORY in self.sources.values()

    @property
    def is_deterministic(self) -> bool:
        """Is the answer to an example independent of the other examples of its mini-batch?

        A feature statistic of the mini-batch is computed from the example alone, so only the batch statistics matter.
        """
        return not any(self.source(statistic).reads_mini_batch for statistic in BATCH_STATISTICS)

    @property
    def num_computed_statistics(self) -> int:
        """Number of statistics that are computed from the mini-batch at inference."""
        return sum(source.reads_mini_batch for source in self.sources.values())

    @property
    def with_mini_batch_statistics(self) -> InferenceConfiguration:
        """The same configuration with the mini-batch instead of the population."""
        return InferenceConfiguration(
            self.code.replace(Source.POPULATION, Source.MINI_BATCH).replace(Source.BLEND, Source.MINI_BATCH)
        )

    @property
    def with_blended_population(self) -> InferenceConfiguration:
        """The same configuration with a blend instead of the population."""
        return InferenceConfiguration(self.code.replace(Source.POPULATION, Source.BLEND))

    def restricted_to(self, method: Method) -> InferenceConfiguration:
        """The part of this configuration that a layer of `method` reads."""
        statistics = method.statistics
        return InferenceConfiguration(
            "".join(self.sources[statistic] if statistic in statistics else Source.ABSENT for statistic in Statistic)
        )


def all_configurations(method: Method) -> tuple[InferenceConfiguration, ...]:
    """Every configuration of `method`, population first: 16 for BLN, four for BN, BRN and LN, nine for MBN."""
    choices = [method.possible_source_letters if statistic in method.statistics else "-" for statistic in Statistic]
    return tuple(InferenceConfiguration("".join(letters)) for letters in product(*choices))


def mini_batch_configuration(method: Method) -> InferenceConfiguration:
    """Every statistic from the present mini-batch: FFFF for BLN, FF-- for BN, MBN and BRN, --FF for LN."""
    return all_configurations(method)[-1]


def epoch_selection_configuration(method: Method) -> InferenceConfiguration:
    """The configuration of the papers that selects the epoch: the memory for MBN, otherwise the mini-batch."""
    return all_configurations(method)[0] if method is Method.MBN else mini_batch_configuration(method)
