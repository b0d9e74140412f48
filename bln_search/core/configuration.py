"""The inference configuration: for each statistic of a normalization layer, where its value comes from.

Its code has four letters in the order E_B Std_B E_F Std_F: `T` population, `F` present mini-batch, `M` memory of recent
training mini-batches, `B` a blend of population and mini-batch, `E` a moving average over the mini-batches of
inference, `-` a statistic that the method does not have. So BLN has 16 codes (`TTFF`, `FTFF`, ...), BN and BRN four
(`TT--`), LN four (`--FF`), MBN nine (`MM--`, `MT--`, ...). Codes with `B` or `E` exist for every method and are
enumerated only where they are asked for. So are the two other readings of MBN's inference: `L` statistics of the last
training step, `C` memory and present mini-batch combined. A network without normalization has the one code `----`.
Weight normalization, normalization propagation and AP2 also have `A`, a value computed from the weights alone: nine
codes (`AA--`, `AT--`, ...). BN and BLN have it where it is asked for: nine and 81 codes.

Sources: Ziaee & Çano 2022, Batch Layer Normalization, Algorithm 2 steps 9 and 12, Eq. 18-21; Guo et al. 2018, MBN;
Shekhovtsov & Flach 2018, AP2.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product

from bln_search.core.enums import MbnStatisticSource, PopulationEstimate
from bln_search.core.method import BATCH_STATISTICS, Method, Statistic, StatisticSource, source_of_mbn

_POSITIONS = {statistic: position for position, statistic in enumerate(Statistic)}

CODE_LETTERS = "".join(StatisticSource)
"""Every letter of a code, with `-` at the end."""

_SOURCES = {str(source): source for source in StatisticSource}

_BLENDS = tuple(source for source in StatisticSource if source.description.has_row_weight)
"""The sources that every method has, in rows with a weight."""


def _describe_other_letters() -> str:
    """The letters that only some methods have, for an error."""
    methods_by_source: dict[StatisticSource, list[str]] = {}
    for method in Method:
        for source in (*method.method_specific_sources, *method.optional_sources):
            methods_by_source.setdefault(source, []).append(method)
    return "; ".join(
        f"{source} ({source.label}) for {', '.join(methods)}" for source, methods in methods_by_source.items()
    )


@dataclass(frozen=True, order=True)
class InferenceConfiguration:
    """One source for each of the four statistics."""

    code: str

    def __post_init__(self) -> None:
        """Raise ValueError unless `code` is the code of a configuration of some method."""
        letters = set(self.code)
        is_well_formed = len(self.code) == len(Statistic) and letters <= set(CODE_LETTERS)
        if not is_well_formed or not any(self.fits_method(method) for method in Method):
            raise ValueError(
                f"{self.code!r} is not an inference configuration: write four letters for E_B Std_B E_F Std_F, "
                "T (population) or F (mini-batch), `--` for a pair the method does not have, for example TTFF or TT--; "
                f"some methods have other letters: {_describe_other_letters()}; B is "
                "a blend of T and F, for example BB--, and E a blend whose T moves with the stream; a network without "
                "normalization has the one configuration ----"
            )

    def __str__(self) -> str:
        return self.code

    def source_of(self, statistic: Statistic) -> StatisticSource:
        """The source of `statistic`. Read from `code`: torch.compile guards configurations by its value."""
        return _SOURCES[self.code[_POSITIONS[statistic]]]

    @cached_property
    def source_by_statistic(self) -> dict[Statistic, StatisticSource]:
        """The source of every statistic."""
        return {statistic: StatisticSource(letter) for statistic, letter in zip(Statistic, self.code, strict=True)}

    def fits_method(self, method: Method) -> bool:
        """Does this configuration have exactly the statistics of `method`, with sources that the method has?"""
        possible = {*method.possible_sources, *_BLENDS}
        return all(
            source in possible if statistic in method.statistics else source.is_absent
            for statistic, source in self.source_by_statistic.items()
        )

    def uses_optional_source_of(self, method: Method) -> bool:
        """Does a statistic come from a source that `method` has after training only?"""
        return any(source in method.optional_sources for source in self.source_by_statistic.values())

    @property
    def uses_population(self) -> bool:
        """Does any statistic come from the population, alone or blended?"""
        return any(source.reads_population for source in self.source_by_statistic.values())

    @property
    def uses_blend(self) -> bool:
        """Is any statistic a blend of population and mini-batch, at rest (B) or moving (E)?"""
        return any(source in _BLENDS for source in self.source_by_statistic.values())

    @property
    def is_moving(self) -> bool:
        """Does a mini-batch change the answer to later ones (source E)?"""
        return any(source.is_moving for source in self.source_by_statistic.values())

    @property
    def uses_mbn_memory(self) -> bool:
        """Does any statistic come from MBN's memory, in any reading?"""
        return any(source.description.mbn_source for source in self.source_by_statistic.values())

    @property
    def estimates_named_by_letters(self) -> tuple[PopulationEstimate, ...]:
        """The estimates that its letters name by themselves, each once."""
        estimates = (source.fixed_estimate for source in self.source_by_statistic.values())
        return tuple(dict.fromkeys(estimate for estimate in estimates if estimate is not None))

    @property
    def uses_only_population_and_mini_batch(self) -> bool:
        """Does every statistic come from the population or the mini-batch?"""
        return not self.uses_blend and not self.estimates_named_by_letters

    @property
    def uses_no_stored_value(self) -> bool:
        """Does no statistic read a stored value?"""
        return not any(source.reads_stored_value for source in self.source_by_statistic.values())

    @property
    def is_deterministic(self) -> bool:
        """Is the answer to an example independent of the other examples of its mini-batch, and of earlier ones?

        A feature statistic of the mini-batch is computed from the example alone, so only the batch statistics matter,
        and those that earlier mini-batches moved.
        """
        return not self.is_moving and not any(
            self.source_of(statistic).reads_mini_batch for statistic in BATCH_STATISTICS
        )

    @property
    def num_statistics_from_mini_batch(self) -> int:
        """Number of statistics that are computed from the mini-batch at inference."""
        return sum(source.reads_mini_batch for source in self.source_by_statistic.values())

    @property
    def with_mini_batch_for_population(self) -> InferenceConfiguration:
        """The same configuration with the mini-batch instead of the population."""
        letters = (
            StatisticSource.MINI_BATCH if source.reads_population else source
            for source in self.source_by_statistic.values()
        )
        return InferenceConfiguration("".join(letters))

    @property
    def with_blend_for_population(self) -> InferenceConfiguration:
        """The same configuration with a blend instead of the population."""
        return InferenceConfiguration(self.code.replace(StatisticSource.POPULATION, StatisticSource.BLEND))

    @property
    def with_moving_for_population(self) -> InferenceConfiguration:
        """The same configuration with a moving average of the stream instead of the population."""
        return InferenceConfiguration(self.code.replace(StatisticSource.POPULATION, StatisticSource.MOVING))

    def restricted_to_statistics_of(self, method: Method) -> InferenceConfiguration:
        """The part of this configuration that a layer of `method` reads."""
        statistics = method.statistics
        return InferenceConfiguration(
            "".join(
                self.source_by_statistic[statistic] if statistic in statistics else StatisticSource.ABSENT
                for statistic in Statistic
            )
        )


def all_configurations(
    method: Method,
    memory_sources: Sequence[MbnStatisticSource] = (MbnStatisticSource.MEMORY,),
    *,
    from_weights: bool = False,
) -> tuple[InferenceConfiguration, ...]:
    """Every configuration of `method`, population first: 16 for BLN, four for BN, BRN and LN, nine for the others.

    Args:
        method: The method.
        memory_sources: The readings of MBN's inference: n of them give (n + 2)² configurations of MBN. Without effect
            for other methods.
        from_weights: Also source A of BN and BLN: nine and 81 configurations. Without effect for other methods.
    """
    from_memory = [source_of_mbn(reading) for reading in memory_sources]
    return enumerate_configurations(method, [*from_memory, *(method.optional_sources if from_weights else ())])


def enumerate_configurations(
    method: Method, sources: Collection[StatisticSource]
) -> tuple[InferenceConfiguration, ...]:
    """Every configuration of `method` with population, mini-batch, and those of `sources` that it has.

    If it has sources of its own, and none of them is given, the first one is added.
    """
    own = method.method_specific_sources
    added = own[:1] if not set(own) & set(sources) else ()
    chosen = {StatisticSource.POPULATION, StatisticSource.MINI_BATCH, *added, *sources}
    letters_of_method = [source for source in method.possible_sources if source in chosen]
    choices = [
        letters_of_method if statistic in method.statistics else [StatisticSource.ABSENT] for statistic in Statistic
    ]
    return tuple(InferenceConfiguration("".join(letters)) for letters in product(*choices))


@cache
def mini_batch_configuration_of(method: Method) -> InferenceConfiguration:
    """Every statistic from the present mini-batch: FFFF for BLN, --FF for LN, FF-- for the others."""
    return all_configurations(method)[-1]


def training_configuration_of(method: Method) -> InferenceConfiguration:
    """The configuration of training: from the weights for methods with source A, otherwise from the mini-batch."""
    return _TRAINING_RULES[method]


_TRAINING_RULES = {
    method: all_configurations(method)[0]
    if method.computes_statistics_from_weights
    else mini_batch_configuration_of(method)
    for method in Method
}
"""Looked up, as layers ask for it in every forward pass."""


@cache
def epoch_selection_configuration_of(method: Method) -> InferenceConfiguration:
    """The configuration that selects the epoch: the method's own source where it has one, otherwise the mini-batch."""
    return all_configurations(method)[0] if method.method_specific_sources else mini_batch_configuration_of(method)
