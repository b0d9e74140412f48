"""Normalization methods, their statistics, and the sources from which a statistic may come at inference.

A method or a source is added here: its member names its description, from which configurations, study files, tables,
pages and exports follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from bln_search.core.enums import MbnStatisticSource, PopulationEstimate, parse_enum


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


@dataclass(frozen=True)
class SourceDescription:
    """A source of a statistic at inference: what it reads, and how it is shown.

    Attributes:
        label: Its name: `population`.
        origin: Where the value comes from, as in `from {data}`; `{data}` stands for the mini-batch or the example.
        words: Whose statistic it is, in a sentence without letters, as in `of {data}`; `{population}` stands for the
            training data or a named population.
        colour: Style in the terminal, in the words of Rich.
        css_class: Style on pages and in reports.
        reads_population: Does it read the population value of the row?
        fixed_estimate: The estimate that it reads in every row; None where it reads none, or that of the row.
        reads_mini_batch: Is it computed, at least in part, from the present mini-batch?
        has_row_weight: Does the row name the weight of the population beside the mini-batch?
        is_moving: Does each mini-batch of inference change the stored value, which begins at that of the population?
        mbn_source: The reading of the inference of MBN that it stands for.
    """

    label: str
    origin: str
    words: str
    colour: str
    css_class: str
    reads_population: bool = False
    fixed_estimate: PopulationEstimate | None = None
    reads_mini_batch: bool = False
    has_row_weight: bool = False
    is_moving: bool = False
    mbn_source: MbnStatisticSource | None = None


class StatisticSource(StrEnum):
    """The source of a statistic at inference: its letter in a code, with its description."""

    POPULATION = "T"
    MINI_BATCH = "F"
    MEMORY = "M"
    LAST_STEP = "L"
    WITH_MINI_BATCH = "C"
    ANALYTIC = "A"
    BLEND = "B"
    MOVING = "E"
    ABSENT = "-"

    @property
    def description(self) -> SourceDescription:
        """Its description."""
        return _SOURCES[self]

    @property
    def label(self) -> str:
        """Its name: `population`."""
        return self.description.label

    @property
    def reads_population(self) -> bool:
        """Does a statistic of this source read the population value of the row?"""
        return self.description.reads_population

    @property
    def fixed_estimate(self) -> PopulationEstimate | None:
        """The estimate that a statistic of this source reads; None where it reads none, or that of the row."""
        return self.description.fixed_estimate

    @property
    def reads_mini_batch(self) -> bool:
        """Is a statistic of this source computed, at least in part, from the present mini-batch?"""
        return self.description.reads_mini_batch

    @property
    def is_moving(self) -> bool:
        """Does each mini-batch of inference change the stored value of a statistic of this source?"""
        return self.description.is_moving

    @property
    def reads_stored_value(self) -> bool:
        """Does a statistic of this source read a value that the layer stores?"""
        return self.reads_population or self.fixed_estimate is not None

    @property
    def mixes_stored_value_and_mini_batch(self) -> bool:
        """Is a statistic of this source computed from a stored value and the present mini-batch?"""
        return self.reads_stored_value and self.reads_mini_batch

    @property
    def has_stored_weight(self) -> bool:
        """Does the estimate, not the row, name the weight of the stored value beside the mini-batch?"""
        return self.mixes_stored_value_and_mini_batch and not self.description.has_row_weight

    @property
    def is_absent(self) -> bool:
        """Does it stand for a statistic that the method does not have?"""
        return not (self.reads_stored_value or self.reads_mini_batch)


_SOURCES: dict[StatisticSource, SourceDescription] = {
    StatisticSource.POPULATION: SourceDescription(
        "population", "from the population", "of {population}", "bold green", "population", reads_population=True
    ),
    StatisticSource.MINI_BATCH: SourceDescription(
        "mini-batch", "from {data}", "of {data}", "yellow", "mini-batch", reads_mini_batch=True
    ),
    StatisticSource.MEMORY: SourceDescription(
        "memory",
        "from the memory of recent training mini-batches",
        "of the memory of recent training mini-batches",
        "bold cyan",
        "memory",
        fixed_estimate=PopulationEstimate.MEMORY,
        mbn_source=MbnStatisticSource.MEMORY,
    ),
    StatisticSource.LAST_STEP: SourceDescription(
        "last training step",
        "from the last training step",
        "of the last training step",
        "bold blue",
        "last-step",
        fixed_estimate=PopulationEstimate.LAST_STEP,
        mbn_source=MbnStatisticSource.LAST_STEP,
    ),
    StatisticSource.WITH_MINI_BATCH: SourceDescription(
        "memory and mini-batch",
        "from the memory and {data} together, weighted as in training",
        "of the memory of recent training mini-batches and {data} together",
        "cyan",
        "with-mini-batch",
        fixed_estimate=PopulationEstimate.MEMORY,
        reads_mini_batch=True,
        mbn_source=MbnStatisticSource.WITH_MINI_BATCH,
    ),
    StatisticSource.ANALYTIC: SourceDescription(
        "weights",
        "from the weights",
        "computed from the weights alone",
        "bold blue",
        "weights",
        fixed_estimate=PopulationEstimate.ANALYTIC,
    ),
    StatisticSource.BLEND: SourceDescription(
        "blend of population and mini-batch",
        "from a blend of the population and {data}",
        "of a blend of {population} and {data}",
        "magenta",
        "blend",
        reads_population=True,
        reads_mini_batch=True,
        has_row_weight=True,
    ),
    StatisticSource.MOVING: SourceDescription(
        "moving average of the stream",
        "from a moving average over the mini-batches of the stream that begins at the population",
        "of a moving average from {population} over the mini-batches of the stream",
        "bold magenta",
        "stream",
        reads_population=True,
        reads_mini_batch=True,
        has_row_weight=True,
        is_moving=True,
    ),
    StatisticSource.ABSENT: SourceDescription("absent", "a statistic that the method does not have", "", "dim", "none"),
}


def describe_origin(source: StatisticSource, data: str) -> str:
    """Where a statistic comes from, as `from the mini-batch`, with a name of the mini-batch or the example."""
    return source.description.origin.format(data=data)


def source_of_mbn(reading: MbnStatisticSource) -> StatisticSource:
    """The source that a reading of MBN's inference stands for. Raises ValueError where there is no such reading."""
    known = parse_enum(MbnStatisticSource, reading, "source of MBN")
    return next(source for source in StatisticSource if source.description.mbn_source == known)


@dataclass(frozen=True)
class MethodDescription:
    """A normalization method, without its layer.

    Attributes:
        layer: The place of its layer, as `bln_search.norms.brn:BRN`.
        statistics: Its statistics: mean and deviation of the mini-batch, of the features, of both, or none.
        own_sources: The sources that only this method has; the first one is that of its paper.
        optional_sources: Sources that a configuration may name, enumerated only where they are asked for.
        arm_keys: Keys of an arm in a study file for its options and schedules, by their names in `ArmSpec`.
        is_compilable: Do its layers have no value, besides γ and β, that changes from one training step to the next?
        is_stackable: Can trainings of it be stacked into one program?
        needs_weights_in_front: Does a layer need a linear or convolution layer directly in front?
    """

    layer: str
    statistics: tuple[Statistic, ...]
    own_sources: tuple[StatisticSource, ...] = ()
    optional_sources: tuple[StatisticSource, ...] = ()
    arm_keys: tuple[str, ...] = ()
    is_compilable: bool = True
    is_stackable: bool = True
    needs_weights_in_front: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for one statistic of a pair: layers, one pass, folding and exports compute both."""
        used = set(self.statistics)
        if any(len(used.intersection(pair)) == 1 for pair in (BATCH_STATISTICS, FEATURE_STATISTICS)):
            raise ValueError(f"{self.layer}: a method has the mean and the deviation of a pair, or neither")


_from_weights = partial(
    MethodDescription,
    statistics=BATCH_STATISTICS,
    own_sources=(StatisticSource.ANALYTIC,),
    is_compilable=False,
    is_stackable=False,
)


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
    def description(self) -> MethodDescription:
        """Its description."""
        return _METHODS[self]

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """The statistics of this method."""
        return self.description.statistics

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
        return self.description.own_sources

    @property
    def optional_sources(self) -> tuple[StatisticSource, ...]:
        """Sources that a configuration of this method may name, enumerated only where they are asked for."""
        return self.description.optional_sources

    @property
    def computes_statistics_from_weights(self) -> bool:
        """Are the statistics of this method computed from the weights, in training too?"""
        return StatisticSource.ANALYTIC in self.method_specific_sources

    @property
    def possible_sources(self) -> tuple[StatisticSource, ...]:
        """The possible sources of its statistics without blends, its own ones first."""
        return (
            *self.method_specific_sources,
            StatisticSource.POPULATION,
            *self.optional_sources,
            StatisticSource.MINI_BATCH,
        )


_METHODS: dict[Method, MethodDescription] = {
    Method.BN: MethodDescription(
        "bln_search.norms.methods:BN",
        BATCH_STATISTICS,
        optional_sources=(StatisticSource.ANALYTIC,),
        arm_keys=("unbiased", "from_weights"),
    ),
    Method.LN: MethodDescription("bln_search.norms.methods:LN", FEATURE_STATISTICS, arm_keys=("axes", "affine")),
    Method.BLN: MethodDescription(
        "bln_search.norms.methods:BLN",
        BATCH_STATISTICS + FEATURE_STATISTICS,
        optional_sources=(StatisticSource.ANALYTIC,),
        arm_keys=("axes", "affine", "from_weights"),
    ),
    Method.MBN: MethodDescription(
        "bln_search.norms.mbn:MBN",
        BATCH_STATISTICS,
        own_sources=tuple(source_of_mbn(reading) for reading in MbnStatisticSource),
        arm_keys=("memory", "memory_decay", "lambda_", "memory_sources", "between_variance"),
        is_compilable=False,
    ),
    Method.BRN: MethodDescription(
        "bln_search.norms.brn:BRN", BATCH_STATISTICS, arm_keys=("momentum", "r_max", "d_max"), is_compilable=False
    ),
    Method.WN: _from_weights("bln_search.norms.analytic.layer:WN", needs_weights_in_front=True),
    Method.NORMPROP: _from_weights("bln_search.norms.analytic.layer:NormProp"),
    Method.AP2: _from_weights("bln_search.norms.analytic.layer:AP2"),
    Method.NONE: MethodDescription("bln_search.norms.no_normalization:NoNormalization", ()),
}
