"""The row to use over several conditions, with its reasons and its alternative."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from bln_search.api.ranked.row import RankedConfiguration
from bln_search.api.ranked.rows_over_conditions import MAX_COMPARED_ROWS_OVER_CONDITIONS, RowsOverConditions
from bln_search.core.enums import Split
from bln_search.core.errors import ModelError
from bln_search.core.records import RowKey
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.metrics import MeanStd, SplitMetrics
from bln_search.ranking.paired.condition_selection import RowSelectedOverConditions, select_row_over_conditions
from bln_search.ranking.selection.condition_criteria import Criterion
from bln_search.ranking.selection.eligible_rows import EligibilityBasis, EligibleRows
from bln_search.reports.sentences.leaderboard import format_sentence
from bln_search.reports.sentences.recommendation import class_frequencies_facts

_CRITERION_LABELS: Mapping[str, str] = {
    Criterion.MEAN: "Mean over conditions",
    Criterion.WORST: "Worst condition",
    Criterion.REGRET: "Largest regret",
}


@dataclass(frozen=True, repr=False)
class RecommendationOverConditions:
    """The row to use. Printing it prints why, what it costs, and the alternative.

    Attributes:
        over: What is minimized: `mean`, `worst`, `regret`, or the name of a condition.
        row: The row. Its metrics are means over the conditions, unless `over` is one of them.
        losses: Its mean loss in each condition.
        regrets: Its loss above the lowest loss of each condition: the cost of not knowing the condition.
        value: What is minimized.
        excess: `value` minus the lowest value of any eligible row.
        lowest: The eligible row of lowest value.
        selection: How it was selected; None if it was selected in the table of one condition, or rows could not be
            compared.
        alternative: The row of lowest value that is independent of the mini-batch; None if `row` is independent, or no
            row is.
        alternative_cost: Value of `alternative` minus that of `row`; 0 without an alternative.
        as_is: Value of the network before conversion; None where there is none.
        num_no_better_than_prior: Number of rows that are not eligible because they predict no better than the class
            frequencies in any condition.
        basis: Why the other rows are eligible.
        is_as_is: Whether `row` is the network before conversion.
        margin: Difference of values up to which rows are practically equal.
    """

    over: str
    row: RankedConfiguration
    losses: Mapping[str, float]
    regrets: Mapping[str, float]
    value: float
    excess: float
    lowest: RankedConfiguration
    selection: RowSelectedOverConditions | None
    alternative: RankedConfiguration | None
    alternative_cost: float
    as_is: float | None
    num_no_better_than_prior: int
    basis: EligibilityBasis
    is_as_is: bool
    margin: float

    @property
    def is_independent(self) -> bool:
        """Whether outputs of the row are independent of the mini-batch."""
        return self.row.is_independent

    @property
    def headline_and_fact_lines(self) -> list[str]:
        """The recommendation in lines: the row, then facts."""
        sizes = "" if self.is_independent else f" at mini-batches of {self.row.row.batch_size}"
        dependence = "independent of" if self.is_independent else "depends on"
        rows = " of the rows that may be recommended" if self.num_no_better_than_prior else ""
        excess = f"the lowest{rows}" if self.excess <= 0 else f"{self.excess:.4f} above the lowest{rows}"
        headline = (
            f"{_CRITERION_LABELS.get(self.over, f'Condition {self.over}')}: use {self.row}{sizes} – {self.value:.4f}, "
            f"{excess}, {dependence} the mini-batch"
        )
        facts = [self.row.explanation, *map(format_sentence, self._fact_sentences())]
        return [headline, *(f"• {fact}" for fact in facts)]

    def _fact_sentences(self) -> list[str]:
        facts = []
        if self.is_as_is:
            facts.append(self._reason_for_keeping_current_row())
        elif self.as_is is not None:
            facts.append(f"the current configuration of the network has {self.as_is:.4f}")
        if self.alternative is not None:
            difference = f"{abs(self.alternative_cost):.4f} {'higher' if self.alternative_cost >= 0 else 'lower'}"
            facts.append(
                f"the best row that is independent of the mini-batch is {self.alternative}: its value is {difference}"
            )
        elif not self.is_independent:
            facts.append("no row is independent of the mini-batch")
        where = f" in {self.over}" if self.over in self.losses else " in any condition"
        return [*facts, *class_frequencies_facts(self.num_no_better_than_prior, self.basis, where)]

    def _reason_for_keeping_current_row(self) -> str:
        fact = "this is the current configuration of the network"
        if self.basis is EligibilityBasis.NONE:
            return fact
        fact += ": on other examples its expected value is practically the lowest, or a change may do harm"
        if self.excess <= 0:
            return fact
        return f"{fact}. The lowest is {self.lowest}: {self.value - self.excess:.4f}"

    def __str__(self) -> str:
        losses = ", ".join(f"{name} {loss:.4f} (+{self.regrets[name]:.4f})" for name, loss in self.losses.items())
        first, *facts = self.headline_and_fact_lines
        return "\n".join([first, f"• Losses, and regrets: {losses}.", *facts])

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.over}, {self.row}, {self.value:.4f}>"


def recommend_over_conditions(rows: RowsOverConditions, over: str) -> RecommendationOverConditions:
    """Select a row. over: a criterion, or the name of a condition.

    Raises:
        ModelError: No row has a value in every condition.
    """
    tables = rows.tables
    if not rows.keys:
        reason = next((row.reason for row in rows.without_value if row.reason), "there is no row")
        raise ModelError(f"no configuration could be measured in every condition: {reason}")
    eligible = rows.find_eligible_rows(over)
    values = rows.losses[:, list(tables).index(over)] if over in tables else rows.criterion_values(Criterion(over))
    order = [int(position) for position in values.argsort(kind="stable") if eligible.mask[position]]
    if over in tables:
        key = _key_of_merged_distinct_row(rows, tables[over].recommended.row.key)
        selection = None
        index = rows.keys.index(key) if key in rows.keys else order[0]
    else:
        candidates = _candidate_row_indices(rows, order)
        selection = _find_selected_row(rows, Criterion(over), candidates)
        index = candidates[0 if selection is None else selection.row]
    return _build_recommendation(rows, over, index, values, selection, eligible)


def _key_of_merged_distinct_row(rows: RowsOverConditions, key: RowKey) -> RowKey:
    """The row that stands for this one if it is the same at several mini-batch sizes."""
    same = (other for other in rows.keys if other._replace(batch_size=key.batch_size) == key)
    return next((other for other in same if key.batch_size in rows.batch_sizes[other]), key)


def _candidate_row_indices(rows: RowsOverConditions, order: list[int]) -> list[int]:
    """The first rows by value, the best independent one, and that of the network before conversion."""
    candidates = order[:MAX_COMPARED_ROWS_OVER_CONDITIONS]
    independent = next((row for row in order if rows.is_independent(rows.keys[row])), None)
    further = [row for row in dict.fromkeys((independent, rows.as_is_index)) if row in order and row not in candidates]
    return [*candidates[: MAX_COMPARED_ROWS_OVER_CONDITIONS - len(further)], *further]


def _find_selected_row(
    rows: RowsOverConditions, criterion: Criterion, candidates: list[int]
) -> RowSelectedOverConditions | None:
    """None where rows cannot be compared."""
    keys = [rows.keys[row] for row in candidates]
    outcome_tables = rows.find_outcome_tables_per_condition(keys)
    if outcome_tables is None:
        return None
    return select_row_over_conditions(
        outcome_tables,
        criterion,
        independent=[rows.is_independent(key) for key in keys],
        computed=[key.configuration.num_statistics_from_mini_batch for key in keys],
        margin=rows.margin(criterion),
        current=keys.index(rows.as_is_row_key) if rows.as_is_row_key in keys else None,
    )


def _build_recommendation(
    rows: RowsOverConditions,
    over: str,
    index: int,
    values: NDArray[np.float64],
    selection: RowSelectedOverConditions | None,
    eligible: EligibleRows,
) -> RecommendationOverConditions:
    tables = rows.tables
    key = rows.keys[index]
    ranks = values.argsort(kind="stable").argsort(kind="stable") + 1
    lowest = int(np.where(eligible.mask, values, np.inf).argmin())
    alternative, alternative_cost = None, 0.0
    if not rows.is_independent(key):
        independent = [position for position, other in enumerate(rows.keys) if rows.is_independent(other)]
        independent = [position for position in independent if eligible.mask[position]] or independent
        if independent:
            best = min(independent, key=lambda position: float(values[position]))
            alternative = _row_with_mean_metrics(rows, over, best, int(ranks[best]))
            alternative_cost = float(values[best] - values[index])
    regrets = rows.losses[index] - rows.losses.min(axis=0)
    current = rows.as_is_index
    return RecommendationOverConditions(
        over=over,
        row=_row_with_mean_metrics(rows, over, index, int(ranks[index])),
        losses=dict(zip(tables, rows.losses[index].tolist(), strict=True)),
        regrets=dict(zip(tables, regrets.tolist(), strict=True)),
        value=float(values[index]),
        excess=float(values[index] - values[lowest]),
        lowest=_row_with_mean_metrics(rows, over, lowest, int(ranks[lowest])),
        selection=selection,
        alternative=alternative,
        alternative_cost=alternative_cost,
        as_is=None if current is None else float(values[current]),
        num_no_better_than_prior=eligible.mask.count(False),
        basis=eligible.basis,
        is_as_is=current == index,
        margin=_margin_of_values(rows, over),
    )


def _margin_of_values(rows: RowsOverConditions, over: str) -> float:
    if over not in rows.tables:
        return rows.margin(Criterion(over))
    comparison = rows.tables[over].comparison
    return 0.0 if comparison is None else comparison.margin


def _row_with_mean_metrics(rows: RowsOverConditions, over: str, index: int, place: int) -> RankedConfiguration:
    """A row with its place under the criterion, and with the means over conditions of its metrics."""
    tables = rows.tables
    key = rows.keys[index]
    names = [over] if over in tables else list(tables)
    members = [rows.get_row(name, key) for name in names]
    splits = [split for split in Split if all(split in member.metrics for member in members)]
    row = replace(
        members[0], rank=place, metrics={split: _mean_metrics_over_conditions(members, split) for split in splits}
    )
    configured = tables[names[0]].make_ranked_configuration(row)
    return replace(configured, batch_sizes=rows.batch_sizes[key])


def _mean_metrics_over_conditions(members: list[LeaderboardRow], split: Split) -> SplitMetrics:
    """Means over conditions; the deviation over networks is that of a single condition, or unknown."""
    metrics = [member.metrics[split] for member in members]
    if len(metrics) == 1:
        return metrics[0]
    accuracies = [value.accuracy.mean for value in metrics if value.accuracy is not None]
    return SplitMetrics(
        MeanStd(fmean(value.loss.mean for value in metrics), None),
        MeanStd(fmean(accuracies), None) if accuracies else None,
    )
