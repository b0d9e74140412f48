"""Compares the rows of a study by their worst or mean loss over its conditions.

The worst loss of a row is that of the condition with its highest mean loss over seeds. Which condition it is, is taken
as known, as in `bln_search.ranking.paired.condition_selection`. Examples of equal index are the same under all
conditions.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.records import RowKey
from bln_search.ranking.comparison import Comparison
from bln_search.ranking.condition_metrics import WORST
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.ranking.selection.eligible_rows import EligibilityBasis, EligibleRows, find_eligible_rows
from bln_search.specs.records import StudyRecord
from bln_search.storage.results.evaluations import EvaluationRecord, ResultRepository
from bln_search.worker.analysis.comparison import EvaluationsBySeed, compare_best_rows

_EvaluationsByCondition = Mapping[str, Mapping[int, EvaluationRecord]]
"""The evaluations of a row by condition and seed, on the split that ranks."""


@dataclass(frozen=True)
class ComparisonOverConditions:
    """Rows compared over the conditions of a study.

    Attributes:
        comparison: None where the loss that ranks decides.
        reason: Why it decides although the study has conditions.
        excluded_rows: Number of rows that predict no better than the class frequencies under any condition.
        basis: Why the other rows are eligible.
    """

    comparison: Comparison | None = None
    reason: str | None = None
    excluded_rows: int = 0
    basis: EligibilityBasis = EligibilityBasis.LOSS


def compare_rows_over_conditions(
    results: ResultRepository,
    study: StudyRecord,
    board: Leaderboard,
    current: RowKey | None,
    level: float,
    class_prior: ClassPriorBaseline | None,
    seeds: int | None = None,
) -> ComparisonOverConditions:
    """Compare the ranked rows by what `ranking: over` of the study names.

    Args:
        results: Repository from which the outcomes are loaded.
        study: The study.
        board: Its leaderboard.
        current: Row of the current configuration of the networks; None where there is none.
        level: Significance level of this look at the data.
        class_prior: What predicting the class frequencies reaches; None where it is unknown.
        seeds: Number of seeds of the look at an incomplete study; None for all results.
    """
    conditions, ranking = study.spec.deciding_conditions, study.spec.ranking
    if not conditions:
        return ComparisonOverConditions()
    records = results.list_evaluations_under(study.id, conditions)
    rows = _group_ranked_rows_by_condition(
        (record for record in records if seeds is None or record.seed < seeds), board, conditions
    )
    sizes = {record.evaluation.n for row in rows.values() for by_seed in row.values() for record in by_seed.values()}
    if len(sizes) > 1:
        return ComparisonOverConditions(reason="the conditions have different numbers of examples")
    found = _find_eligible_rows(rows, class_prior, current)
    eligible = {row: rows[row] for row, is_eligible in zip(rows, found.mask, strict=True) if is_eligible}
    comparison, reason = compare_best_rows(
        results,
        _order_rows(eligible, ranking.over),
        board,
        current,
        ranking.practical,
        level,
        per_slot=study.spec.has_populations_per_slot,
    )
    if comparison is None:
        return ComparisonOverConditions(reason=reason)
    names = tuple(conditions.values())
    comparison = comparison.model_copy(update={"over": ranking.over, "conditions": names})
    return ComparisonOverConditions(comparison, excluded_rows=len(rows) - len(eligible), basis=found.basis)


def _group_ranked_rows_by_condition(
    records: Iterable[EvaluationRecord], board: Leaderboard, conditions: Collection[str]
) -> dict[RowKey, _EvaluationsByCondition]:
    """The evaluations of each ranked row that was measured under every one of these conditions and every seed."""
    grouped: dict[RowKey, dict[str, dict[int, EvaluationRecord]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        key = record.evaluation.key
        if key.split is board.ranked_on and record.evaluation.loss is not None:
            row = RowKey.of_evaluation(record.arm, record.point, key)
            grouped[row][key.condition][record.seed] = record
    return {
        row.key: grouped[row.key]
        for row in board.rows
        if row.rank is not None and all(len(grouped[row.key][condition]) == row.seeds for condition in conditions)
    }


def _find_eligible_rows(
    rows: Mapping[RowKey, _EvaluationsByCondition], class_prior: ClassPriorBaseline | None, current: RowKey | None
) -> EligibleRows:
    conditions = [list(by_condition.values()) for by_condition in rows.values()]
    if not conditions:
        return EligibleRows((), EligibilityBasis.LOSS)
    return find_eligible_rows(
        [[_mean_loss(by_seed.values()) for by_seed in of_row] for of_row in conditions],
        [[_mean_accuracy(by_seed.values()) for by_seed in of_row] for of_row in conditions],
        [class_prior] * len(conditions[0]),
        [next(iter(by_seed.values())).evaluation.n for by_seed in conditions[0]],
        list(rows).index(current) if current is not None and current in rows else None,
    )


def _order_rows(rows: Mapping[RowKey, _EvaluationsByCondition], over: str) -> dict[RowKey, EvaluationsBySeed]:
    """The evaluations that give each row its worst or mean loss, by that loss."""
    chosen = {row: _choose_evaluations(by_condition, over) for row, by_condition in rows.items()}
    losses = {row: _mean_loss(chain.from_iterable(by_seed.values())) for row, by_seed in chosen.items()}
    return {row: chosen[row] for row in sorted(chosen, key=losses.__getitem__)}


def _choose_evaluations(by_condition: _EvaluationsByCondition, over: str) -> EvaluationsBySeed:
    conditions = list(by_condition.values())
    if over == WORST:
        conditions = [max(conditions, key=lambda by_seed: _mean_loss(by_seed.values()))]
    return {seed: [by_seed[seed] for by_seed in conditions] for seed in conditions[0]}


def _mean_loss(records: Iterable[EvaluationRecord]) -> float:
    return fmean(record.evaluation.loss for record in records if record.evaluation.loss is not None)


def _mean_accuracy(records: Iterable[EvaluationRecord]) -> float:
    """Mean accuracy; NaN for a score without correctness."""
    accuracies = [record.evaluation.accuracy for record in records]
    return math.nan if None in accuracies else fmean(value for value in accuracies if value is not None)
