"""Recommend one row, and what is known about that choice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.records import RowKey
from bln_search.ranking.analysis_part import StoredAnalysisModel
from bln_search.ranking.comparison import (
    ComparedRow,
    Comparison,
    MeanDifference,
    Question,
    RowVerdict,
    StoredRow,
    Verdict,
)
from bln_search.ranking.grouping import LossBySeed
from bln_search.ranking.selection.batch_sizes import list_batch_sizes_near_best
from bln_search.ranking.selection.eligible_rows import EligibilityBasis, EligibleRows, find_eligible_rows
from bln_search.ranking.selection.expected_loss import DifferencePrior, may_replace
from bln_search.ranking.selection.row_cost import cost_of_row, is_deterministic_configuration


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
    """The row of the current configuration of a network.

    Attributes:
        configuration: Current inference configuration.
        estimate: Current population estimate.
        is_recommended: Whether it is recommended.
        loss: Mean loss, nats.
        above_best: Its mean loss minus the lowest one, nats, over examples of these networks.
        expected_above_best: What is expected of its difference to the best eligible row on other examples, nats.
    """

    configuration: str
    estimate: str | None
    is_recommended: bool
    loss: float
    above_best: MeanDifference
    expected_above_best: float


class Recommendation(StoredRow):
    """The recommended row, at the inference mini-batch size at which it was ranked.

    Attributes:
        deterministic: Whether outputs are independent of the mini-batch.
        computed_statistics: Number of statistics computed at inference.
        batch_sizes: Inference mini-batch sizes at which it is near the best row; None where outputs are the same at
            every size.
        verdict: What is known about this choice.
        candidate_rows: Number of eligible rows whose expected loss is above the lowest one of these by no more than the
            margin.
        compared_rows: Number of compared rows.
        excluded_rows: Number of compared rows that predict no better than the class frequencies and are not
            recommended.
        first_share: Probability that the row has the lowest mean loss.
        loss: Mean loss over seeds, nats.
        accuracy: Mean accuracy over seeds, fraction; None for a score without correctness.
        loss_above_best: Mean loss minus that of the best row, nats; 0 for the best row.
        loss_above_best_upper: Upper end of the 95 % confidence interval of `loss_above_best`; 0 for the best row.
        alternative: None where the row is deterministic or no row is.
        margin: Difference of mean losses up to which rows are practically equal.
        question: What the answer extends to.
        current: The row of the current configuration of the network; None where there is none.
        ranking_loss: Its mean loss that ranks the leaderboard, where rows were compared over conditions; else None.
        ranking_loss_above_best: The same minus the lowest one.
        basis: Why the rows were eligible from which it was selected.
    """

    deterministic: bool
    computed_statistics: int
    batch_sizes: tuple[int, ...] | None
    verdict: Verdict
    candidate_rows: int
    compared_rows: int
    excluded_rows: int
    first_share: float
    loss: float
    accuracy: float | None
    loss_above_best: float
    loss_above_best_upper: float
    alternative: DeterministicAlternative | None
    margin: float
    question: Question
    current: CurrentConfigurationRow | None = None
    ranking_loss: float | None = None
    ranking_loss_above_best: float | None = None
    basis: EligibilityBasis = EligibilityBasis.LOSS

    @property
    def is_best(self) -> bool:
        """Whether it is the row of lowest mean loss."""
        return self.loss_above_best == 0 and self.loss_above_best_upper == 0


def recommend_row(
    comparison: Comparison,
    losses_by_size: Mapping[int, Mapping[RowKey, LossBySeed]],
    *,
    per_slot: bool = False,
    class_prior: ClassPriorBaseline | None = None,
) -> Recommendation:
    """Recommend a row by its expected loss (`expected_loss`).

    The candidates are the eligible rows (`eligible_rows`) whose expected loss is above the lowest one of these by no
    more than the margin. The row of the current configuration is recommended if it is a candidate, or if a change may
    do harm; else a candidate that is independent of the mini-batch, of these one that is certain to be within the
    margin, and of these the cheapest; ties are broken by mean loss. A candidate that may do harm does not replace the
    current row; the best eligible row does.

    Args:
        comparison: Comparison of the best ranked rows.
        losses_by_size: Losses of every row at other inference mini-batch sizes, on a split on which no row was
            selected or on the same one. Keys hold that size.
        per_slot: Whether the population has a value for each position in the mini-batch, so that a configuration that
            reads it depends on the position.
        class_prior: What predicting the class frequencies reaches; None where it is unknown.
    """
    found = _find_eligible_compared_rows(comparison, class_prior)
    eligible = [row for row, is_eligible in zip(comparison.rows, found.mask, strict=True) if is_eligible]
    prior = DifferencePrior(comparison.prior_variance)
    differences = (_difference_and_variance(row, eligible[0]) for row in eligible)
    expected = [prior.expected_difference(difference, variance) for difference, variance in differences]
    candidates = [row for row, above in zip(eligible, expected, strict=True) if above <= comparison.margin]
    preferred = min(candidates, key=lambda row: _preference_sort_key(comparison, row, per_slot=per_slot))
    row, current = _choose_current_or_preferred(comparison, eligible, preferred)
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
        verdict=_judge_choice(comparison, row),
        candidate_rows=len(candidates),
        compared_rows=len(comparison.rows),
        excluded_rows=len(comparison.rows) - len(eligible),
        first_share=row.first_share,
        loss=row.loss,
        accuracy=row.accuracy,
        loss_above_best=row.above_best.mean,
        loss_above_best_upper=row.above_best.high,
        alternative=None if deterministic else _find_deterministic_alternative(eligible, per_slot=per_slot),
        margin=comparison.margin,
        question=comparison.question,
        current=current,
        basis=found.basis,
    )


def _find_eligible_compared_rows(comparison: Comparison, class_prior: ClassPriorBaseline | None) -> EligibleRows:
    losses = [[row.loss] for row in comparison.rows]
    accuracies = [[math.nan if row.accuracy is None else row.accuracy] for row in comparison.rows]
    return find_eligible_rows(losses, accuracies, [class_prior], [comparison.examples], comparison.current)


def _difference_and_variance(row: ComparedRow, lowest: ComparedRow) -> tuple[float, float]:
    """Loss of a row minus that of another one, and the largest variance that their covariance permits."""
    difference = row.above_best.mean - lowest.above_best.mean
    return difference, (math.sqrt(row.variance) + math.sqrt(lowest.variance)) ** 2


def _choose_current_or_preferred(
    comparison: Comparison, eligible: Sequence[ComparedRow], preferred: ComparedRow
) -> tuple[ComparedRow, CurrentConfigurationRow | None]:
    """The current row unless another is to replace it, and how it compares."""
    if comparison.current is None:
        return preferred, None
    current = comparison.rows[comparison.current]
    prior, others = DifferencePrior(comparison.prior_variance), len(comparison.rows) - 1
    difference, variance = _difference_and_variance(current, eligible[0])
    is_kept = current in eligible and prior.keeps_row_in_use(difference, variance, comparison.margin, others)
    gain, variances = current.loss - preferred.loss, (current.variance, preferred.variance)
    better = preferred if may_replace(gain, variances, comparison.margin) else eligible[0]
    row = current if is_kept else better
    described = CurrentConfigurationRow(
        configuration=current.configuration,
        estimate=current.estimate,
        is_recommended=row == current,
        loss=current.loss,
        above_best=current.above_best,
        expected_above_best=prior.expected_difference(difference, variance, others),
    )
    return row, described


def _judge_choice(comparison: Comparison, row: ComparedRow) -> Verdict:
    """What is known about the choice of a row."""
    others = [other.verdict for other in comparison.rows if not _is_equal_to_best(other)]
    return judge_choice(others, is_best=_is_equal_to_best(row), is_settled=row.is_settled)


def judge_choice(others: Sequence[RowVerdict], *, is_best: bool, is_settled: bool) -> Verdict:
    """What is known about the choice of a row.

    Args:
        others: Verdicts of the rows that do not have the outcomes of the best one.
        is_best: Whether the row has the outcomes of the best one.
        is_settled: Whether no row is better by more than the margin.
    """
    if is_best and others and all(verdict is RowVerdict.WORSE for verdict in others):
        return Verdict.BETTER
    return Verdict.PRACTICALLY_EQUAL if is_settled else Verdict.CANNOT_TELL


def _is_equal_to_best(row: ComparedRow) -> bool:
    """Whether the row is the best one or has its outcomes."""
    return row.variance == 0 and row.above_best.mean == 0


def _is_deterministic_row(row: ComparedRow, *, per_slot: bool) -> bool:
    return is_deterministic_configuration(InferenceConfiguration(row.configuration), per_slot=per_slot)


def _find_deterministic_alternative(rows: Sequence[ComparedRow], *, per_slot: bool) -> DeterministicAlternative | None:
    row = next((row for row in rows if _is_deterministic_row(row, per_slot=per_slot)), None)
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


def _preference_sort_key(
    comparison: Comparison, row: ComparedRow, *, per_slot: bool
) -> tuple[bool, bool, int, float, str]:
    depends, computed = cost_of_row(InferenceConfiguration(row.configuration), per_slot=per_slot)
    is_open = _judge_choice(comparison, row) is Verdict.CANNOT_TELL
    return depends, is_open, computed, row.loss, row.configuration
