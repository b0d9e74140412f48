"""Recommend one row, with the confidence of that recommendation."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.method import FEATURE_STATISTICS
from bln_search.core.records import RowKey
from bln_search.ranking.analysis_part import StoredAnalysisModel
from bln_search.ranking.comparison import ComparedRow, Comparison
from bln_search.ranking.grouping import LossBySeed
from bln_search.ranking.selection.near_best import list_batch_sizes_near_best, list_rows_near_best


class Confidence(StrEnum):
    """How far the best row is separated from the others.

    Members:
        SIGNIFICANT: The best row differs significantly from every other row.
        NOT_SIGNIFICANT: At least one row does not differ significantly from the best one.
        ONE_SEED: There is one seed; the result does not extend to other seeds.
    """

    SIGNIFICANT = "clear"
    NOT_SIGNIFICANT = "shared"
    ONE_SEED = "one_seed"


class DeterministicAlternative(StoredAnalysisModel):
    """The best row that is independent of the mini-batch, where the recommended row is not.

    Attributes:
        arm: Label of the arm.
        point: Point of the search space as JSON; empty without a space.
        configuration: Inference configuration.
        estimate: Population estimate; None where the configuration reads no population value.
        loss: Mean loss over seeds, nats.
        accuracy: Mean accuracy over seeds, fraction; None for a score without correctness.
    """

    arm: str
    point: str
    configuration: str
    estimate: str | None
    loss: float
    accuracy: float | None


class CurrentConfigurationRow(StoredAnalysisModel):
    """The row of the current configuration of a network, which is replaced only by a significantly better one.

    Attributes:
        configuration: Current inference configuration.
        estimate: Current population estimate.
        gain: Mean loss (nats) of this row minus that of the recommended row; 0 where this row is recommended.
        low: Lower end of the 95 % confidence interval of `gain`, over examples of these networks.
        high: Upper end of that interval.
        significantly_better: Number of rows that are significantly better than this row on these networks.
    """

    configuration: str
    estimate: str | None
    gain: float
    low: float
    high: float
    significantly_better: int = 0

    @property
    def is_recommended(self) -> bool:
        """Whether the current configuration is the recommended one."""
        return self.gain == 0


class Recommendation(StoredAnalysisModel):
    """The recommended row.

    Attributes:
        arm: Label of the arm.
        point: Point of the search space as JSON; empty without a space.
        configuration: Inference configuration.
        estimate: Population estimate; None where the configuration reads no population value.
        batch_size: Inference mini-batch size at which it was ranked.
        deterministic: Whether outputs are independent of the mini-batch.
        computed_statistics: Number of statistics computed at inference.
        batch_sizes: Inference mini-batch sizes at which it is near the best row; None where outputs are the same at
            every size.
        top_group_size: Number of rows in the top group of the comparison.
        near_best_rows: Number of rows near the best one, this row included.
        compared_rows: Number of compared rows.
        first_share: Share of bootstrap draws of seeds and examples in which the row has the lowest mean loss.
        loss: Mean loss over seeds, nats.
        accuracy: Mean accuracy over seeds, fraction; None for a score without correctness.
        loss_above_best: Mean loss minus that of the best row, nats; 0 for the best row.
        loss_above_best_upper: Upper end of the 95 % confidence interval of `loss_above_best`; 0 for the best row.
        alternative: None where the row is deterministic or no row is.
        confidence: How far the best row is separated from the others.
        current: The row of the current configuration of the network; None where there is none.
    """

    arm: str
    point: str
    configuration: str
    estimate: str | None
    batch_size: int
    deterministic: bool
    computed_statistics: int = Field(validation_alias="computed")
    batch_sizes: tuple[int, ...] | None
    top_group_size: int = Field(validation_alias="sharing")
    near_best_rows: int = Field(validation_alias="near")
    compared_rows: int = Field(validation_alias="of")
    first_share: float
    loss: float
    accuracy: float | None
    loss_above_best: float
    loss_above_best_upper: float = Field(validation_alias="loss_to_best")
    alternative: DeterministicAlternative | None
    confidence: Confidence
    current: CurrentConfigurationRow | None = Field(default=None, validation_alias="baseline")

    @property
    def key(self) -> RowKey:
        """Identity of the row."""
        configuration = InferenceConfiguration(self.configuration)
        return RowKey(self.arm, self.point, configuration, self.estimate, self.batch_size)

    @property
    def is_best(self) -> bool:
        """Whether it is the row of lowest mean loss."""
        return self.loss_above_best == 0 and self.loss_above_best_upper == 0


def recommend_row(
    comparison: Comparison,
    losses_by_size: Mapping[int, Mapping[RowKey, LossBySeed]],
    *,
    per_slot: bool = False,
) -> Recommendation:
    """Recommend the cheapest deterministic row near the best one (`list_rows_near_best`), ties broken by mean loss.

    The row of the current configuration is recommended unless that one is significantly better on these networks.

    Args:
        comparison: Comparison of the best ranked rows.
        losses_by_size: Losses of every row at other inference mini-batch sizes, on a split on which no row was
            selected or on the same one. Keys hold that size.
        per_slot: Whether the population has a value for each position in the mini-batch, so that a configuration that
            reads it depends on the position.
    """
    near = list_rows_near_best(comparison)
    candidates = _candidates_to_replace_current_row(comparison, near)
    preferred = min(candidates, key=lambda row: _preference_sort_key(row, per_slot=per_slot))
    row, current_row = _keep_current_row_unless_worse(comparison, preferred)
    pair = None if row == comparison.rows[0] else comparison.find_pair(0, comparison.rows.index(row))
    deterministic = _is_deterministic_row(row, per_slot=per_slot)
    return Recommendation(
        arm=row.arm,
        point=row.point,
        configuration=row.configuration,
        estimate=row.estimate,
        batch_size=row.batch_size,
        deterministic=deterministic,
        computed_statistics=InferenceConfiguration(row.configuration).num_statistics_from_mini_batch,
        batch_sizes=None if deterministic else list_batch_sizes_near_best(row, losses_by_size, comparison.seeds),
        top_group_size=len(comparison.top_group),
        near_best_rows=len(near),
        compared_rows=len(comparison.rows),
        first_share=row.first_share,
        loss=row.loss,
        accuracy=row.accuracy,
        loss_above_best=0.0 if pair is None else -pair.loss.mean,
        loss_above_best_upper=0.0 if pair is None else -pair.loss.low,
        alternative=None if deterministic else _find_deterministic_alternative(comparison, per_slot=per_slot),
        confidence=_assess_confidence_in_best_row(comparison),
        current=current_row,
    )


def _assess_confidence_in_best_row(comparison: Comparison) -> Confidence:
    if comparison.seeds == 1:
        return Confidence.ONE_SEED
    alone = (
        len(comparison.top_group) == 1
        and not comparison.not_compared
        and not comparison.num_inconclusive_rows_below_top_group
    )
    return Confidence.SIGNIFICANT if alone else Confidence.NOT_SIGNIFICANT


def _candidates_to_replace_current_row(comparison: Comparison, near: list[ComparedRow]) -> list[ComparedRow]:
    """Rows near the best one; where the current row is not near it, those that are significantly better, if any."""
    current = comparison.current
    if current is None or comparison.rows[current.row] in near:
        return near
    better = [comparison.rows[index] for index in sorted(current.better_rows)]
    return [row for row in near if row in better] or better[:1] or near


def _keep_current_row_unless_worse(
    comparison: Comparison, preferred: ComparedRow
) -> tuple[ComparedRow, CurrentConfigurationRow | None]:
    """The current row unless the preferred one is significantly better on these networks, and how the two compare."""
    current = comparison.current
    if current is None:
        return preferred, None
    index = comparison.rows.index(preferred)
    gain = current.gains[index] if index in current.better_rows else None
    current_row = comparison.rows[current.row]
    described = CurrentConfigurationRow(
        configuration=current_row.configuration,
        estimate=current_row.estimate,
        gain=0 if gain is None else gain.mean,
        low=0 if gain is None else gain.low,
        high=0 if gain is None else gain.high,
        significantly_better=len(current.better_rows),
    )
    return (current_row if gain is None else preferred), described


def is_deterministic_configuration(configuration: InferenceConfiguration, *, per_slot: bool) -> bool:
    """Whether outputs depend neither on other examples nor on the position in the mini-batch."""
    reads_position = per_slot and any(
        configuration.source_of(statistic).reads_population for statistic in FEATURE_STATISTICS
    )
    return configuration.is_deterministic and not reads_position


def _is_deterministic_row(row: ComparedRow, *, per_slot: bool) -> bool:
    return is_deterministic_configuration(InferenceConfiguration(row.configuration), per_slot=per_slot)


def _find_deterministic_alternative(comparison: Comparison, *, per_slot: bool) -> DeterministicAlternative | None:
    row = next((row for row in comparison.rows if _is_deterministic_row(row, per_slot=per_slot)), None)
    if row is None:
        return None
    return DeterministicAlternative(
        arm=row.arm,
        point=row.point,
        configuration=row.configuration,
        estimate=row.estimate,
        loss=row.loss,
        accuracy=row.accuracy,
    )


def _preference_sort_key(row: ComparedRow, *, per_slot: bool) -> tuple[bool, int, float, str]:
    computed = InferenceConfiguration(row.configuration).num_statistics_from_mini_batch
    return not _is_deterministic_row(row, per_slot=per_slot), computed, row.loss, row.configuration
