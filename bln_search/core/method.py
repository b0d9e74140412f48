"""Normalization methods, their statistics, and the sources from which a statistic may come at inference."""

from __future__ import annotations

from enum import StrEnum

from bln_search.core.enums import MbnStatisticSource, PopulationEstimate


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


BATCH_STATISTICS = (Statistic.BATCH_MEAN, Statistic.BATCH_DEVIATION)
FEATURE_STATISTICS = (Statistic.FEATURE_MEAN, Statistic.FEATURE_DEVIATION)


class Method(StrEnum):
    """A normalization method; `none` for a network without normalization."""

    BN = "bn"
    LN = "ln"
    BLN = "bln"
    MBN = "mbn"
    BRN = "brn"
    WN = "wn"
    NORMPROP = "normprop"
    AP2 = "ap2"
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
    def has_feature_statistics(self) -> bool:
        """Does this method have statistics over the features of an example?"""
        return any(statistic in FEATURE_STATISTICS for statistic in self.statistics)

    @property
    def method_specific_sources(self) -> tuple[StatisticSource, ...]:
        """The sources that only this method has; the first one is that of its paper."""
        return _OWN_SOURCES.get(self, ())

    @property
    def optional_sources(self) -> tuple[StatisticSource, ...]:
        """Sources that a configuration of this method may name, enumerated only where they are asked for."""
        return _OPTIONAL_SOURCES.get(self, ())

    @property
    def computes_statistics_from_weights(self) -> bool:
        """Are the statistics of this method computed from the weights, in training too?"""
        return StatisticSource.ANALYTIC in self.method_specific_sources

    @property
    def possible_source_letters(self) -> str:
        """The letters of the possible sources of its statistics without blends, its own ones first."""
        return "".join(
            (
                *self.method_specific_sources,
                StatisticSource.POPULATION,
                *self.optional_sources,
                StatisticSource.MINI_BATCH,
            )
        )


_STATISTICS: dict[Method, tuple[Statistic, ...]] = {
    Method.BN: BATCH_STATISTICS,
    Method.LN: FEATURE_STATISTICS,
    Method.BLN: BATCH_STATISTICS + FEATURE_STATISTICS,
    Method.MBN: BATCH_STATISTICS,
    Method.BRN: BATCH_STATISTICS,
    Method.WN: BATCH_STATISTICS,
    Method.NORMPROP: BATCH_STATISTICS,
    Method.AP2: BATCH_STATISTICS,
    Method.NONE: (),
}


class StatisticSource(StrEnum):
    """The source of a statistic at inference."""

    POPULATION = "T"
    MINI_BATCH = "F"
    MEMORY = "M"
    LAST_STEP = "L"
    WITH_MINI_BATCH = "C"
    ANALYTIC = "A"
    BLEND = "B"
    ABSENT = "-"

    @property
    def label(self) -> str:
        """Its name: `population`."""
        return _SOURCE_LABELS[self]

    @property
    def css_name(self) -> str:
        """Its name in style sheets, one word."""
        return _CSS_NAMES.get(self, self.label)

    @property
    def reads_population(self) -> bool:
        """Does a statistic of this source read a population value?"""
        return self in (StatisticSource.POPULATION, StatisticSource.BLEND)

    @property
    def fixed_estimate(self) -> PopulationEstimate | None:
        """The estimate that a statistic of this source reads; None where it reads none, or that of the row."""
        return _OWN_ESTIMATES.get(self)

    @property
    def reads_stored_value(self) -> bool:
        """Does a statistic of this source read a value that the layer stores?"""
        return self.reads_population or self.fixed_estimate is not None

    @property
    def reads_mini_batch(self) -> bool:
        """Is a statistic of this source computed, at least in part, from the present mini-batch?"""
        return self in (StatisticSource.MINI_BATCH, StatisticSource.BLEND, StatisticSource.WITH_MINI_BATCH)

    @property
    def mixes_stored_value_and_mini_batch(self) -> bool:
        """Is a statistic of this source computed from a stored value and the present mini-batch?"""
        return self.reads_stored_value and self.reads_mini_batch


_SOURCE_LABELS = {
    StatisticSource.POPULATION: "population",
    StatisticSource.MINI_BATCH: "mini-batch",
    StatisticSource.MEMORY: "memory",
    StatisticSource.LAST_STEP: "last training step",
    StatisticSource.WITH_MINI_BATCH: "memory and mini-batch",
    StatisticSource.ANALYTIC: "weights",
    StatisticSource.BLEND: "blend of population and mini-batch",
    StatisticSource.ABSENT: "none",
}

_CSS_NAMES = {
    StatisticSource.LAST_STEP: "last-step",
    StatisticSource.WITH_MINI_BATCH: "with-mini-batch",
    StatisticSource.BLEND: "blend",
}

_OWN_ESTIMATES = {
    StatisticSource.MEMORY: PopulationEstimate.MEMORY,
    StatisticSource.LAST_STEP: PopulationEstimate.LAST_STEP,
    StatisticSource.WITH_MINI_BATCH: PopulationEstimate.MEMORY,
    StatisticSource.ANALYTIC: PopulationEstimate.ANALYTIC,
}

MEMORY_SOURCES = {
    MbnStatisticSource.MEMORY: StatisticSource.MEMORY,
    MbnStatisticSource.LAST_STEP: StatisticSource.LAST_STEP,
    MbnStatisticSource.WITH_MINI_BATCH: StatisticSource.WITH_MINI_BATCH,
}
"""The letter of each reading of MBN's inference."""

_OWN_SOURCES = {
    Method.MBN: tuple(MEMORY_SOURCES.values()),
    Method.WN: (StatisticSource.ANALYTIC,),
    Method.NORMPROP: (StatisticSource.ANALYTIC,),
    Method.AP2: (StatisticSource.ANALYTIC,),
}

_OPTIONAL_SOURCES = {Method.BN: (StatisticSource.ANALYTIC,), Method.BLN: (StatisticSource.ANALYTIC,)}
