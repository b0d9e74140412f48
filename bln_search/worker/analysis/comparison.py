"""Compares the best rows of a study by their outcomes on single examples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bln_search.core.records import RowKey
from bln_search.ranking.comparison import MAX_COMPARED_ROWS, Comparison
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.ranking.paired import OutcomeTable, compare_rows
from bln_search.ranking.paired.table import MAX_COMPARED_EXAMPLES, draw_compared_examples
from bln_search.ranking.selection.normalization_benefit import WITHOUT_NORMALIZATION
from bln_search.ranking.statistics.intervals import ALPHA
from bln_search.storage.results.evaluations import EvaluationRecord, ResultRepository

_MAX_LOSSES = 32_000_000
"""Largest number of losses (rows × seeds × examples) in one comparison."""

EvaluationsBySeed = Mapping[int, Sequence[EvaluationRecord]]
"""The evaluations of a row under each seed, over which its outcomes are averaged."""


def compare_best_ranked_rows(
    results: ResultRepository,
    records: Sequence[EvaluationRecord],
    board: Leaderboard,
    only: Sequence[RowKey] | None = None,
    current: RowKey | None = None,
    margin: float | None = None,
    level: float = ALPHA,
    *,
    per_slot: bool = False,
) -> tuple[Comparison | None, str | None]:
    """Compare the best ranked rows, and the best one without normalization, on the split by which they are ranked.

    Args:
        results: Repository from which the outcomes are loaded.
        records: Every evaluation of the study.
        board: The leaderboard of these evaluations.
        only: Rows to compare; None for all ranked rows.
        current: Row of the current configuration of the networks; None where there is none.
        margin: Difference of mean losses up to which rows are practically equal; None for the default.
        level: Significance level of this look at the data.
        per_slot: Whether the population has a value for each position in the mini-batch.

    Returns:
        The comparison, or the reason why there is none.
    """
    compared = None if only is None else set(only)
    ranked = {
        key: by_seed
        for key, by_seed in group_ranked_evaluations(records, board).items()
        if compared is None or key in compared
    }
    return compare_best_rows(results, ranked, board, current, margin, level, per_slot=per_slot)


def compare_best_rows(
    results: ResultRepository,
    ranked: Mapping[RowKey, EvaluationsBySeed],
    board: Leaderboard,
    current: RowKey | None = None,
    margin: float | None = None,
    level: float = ALPHA,
    *,
    per_slot: bool = False,
) -> tuple[Comparison | None, str | None]:
    """The same of rows in the order of `ranked`, with the evaluations from which each has its outcomes."""
    loaded = load_table_of_best_rows(results, ranked, current)
    if isinstance(loaded, str):
        return None, loaded
    rows, table = loaded
    if not board.has_accuracy:
        table = replace(table, has_correctness=False)
    comparison = compare_rows(
        rows,
        table,
        board.ranked_on,
        margin=margin,
        level=level,
        not_compared=len(ranked) - len(rows),
        current=current,
        per_slot=per_slot,
    )
    return comparison, None


def load_table_of_best_rows(
    results: ResultRepository, ranked: Mapping[RowKey, EvaluationsBySeed], current: RowKey | None = None
) -> tuple[list[RowKey], OutcomeTable] | str:
    """The rows that are compared, with their outcomes; or the reason why there are none.

    Args:
        results: Repository from which the outcomes are loaded.
        ranked: Ranked rows from the best one down, with the evaluations from which each has its outcomes.
        current: Row of the current configuration of the networks; None where there is none.
    """
    if len(ranked) < 2:
        return "fewer than two rows are ranked: there is nothing to compare"
    first = next(iter(ranked.values()))
    seeds = sorted(first)
    examples = first[seeds[0]][0].evaluation.n
    max_rows = min(MAX_COMPARED_ROWS, _MAX_LOSSES // (len(seeds) * min(examples, MAX_COMPARED_EXAMPLES)))
    rows = [row for row in select_compared_rows(list(ranked), max_rows, current) if sorted(ranked[row]) == seeds]
    if len(rows) < 2:
        return f"{len(seeds)} seeds of {examples} examples are too many to compare at once"
    table = _load_mean_outcome_table(results, [[ranked[row][seed] for row in rows] for seed in seeds], examples)
    return (rows, table) if table is not None else "per-example outcomes are not stored for all rows"


def select_compared_rows(ranked: Sequence[RowKey], count: int, current: RowKey | None = None) -> list[RowKey]:
    """The first `count` rows; in place of the last ones the best row without normalization and the current one."""
    plain = next((row for row in ranked if row.configuration == WITHOUT_NORMALIZATION), None)
    first = list(ranked[:count])
    further = [row for row in dict.fromkeys((plain, current)) if row is not None and row in ranked and row not in first]
    return [*first[: count - len(further)], *further]


def _load_mean_outcome_table(
    results: ResultRepository, cells: Sequence[Sequence[Sequence[EvaluationRecord]]], examples: int
) -> OutcomeTable | None:
    """Outcomes of cells (seeds, rows), means over the evaluations of a cell; None where some are not stored."""
    table = None
    count = len(cells[0][0])
    for position in range(count):
        part = _load_outcome_table(results, [[cell[position].id for cell in row] for row in cells], examples)
        if part is None or count == 1:
            return part
        losses, correct = part.losses / count, (part.correct / count).astype(np.float32)
        if table is not None:
            losses, correct = table.losses + losses, (table.correct + correct).astype(np.float32)
        table = replace(part, losses=losses, correct=correct)
    return table


def _load_outcome_table(
    results: ResultRepository, evaluation_ids: Sequence[Sequence[int]], examples: int
) -> OutcomeTable | None:
    """Outcomes of evaluations (seeds, rows) as arrays (seeds, rows, examples); None where some are not stored."""
    sample = draw_compared_examples(examples)
    part = slice(None) if sample is None else sample
    compared = examples if sample is None else len(sample)
    losses = np.empty((len(evaluation_ids), len(evaluation_ids[0]), compared), np.float32)
    correct = np.empty(losses.shape, np.bool_)
    cells = {
        evaluation_id: (seed, row)
        for seed, row_ids in enumerate(evaluation_ids)
        for row, evaluation_id in enumerate(row_ids)
    }
    missing = set(cells)
    for evaluation_id, outcome in results.iter_outcomes(list(cells)):
        if len(outcome.losses) != examples:
            return None
        losses[cells[evaluation_id]], correct[cells[evaluation_id]] = outcome.losses[part], outcome.correct[part]
        missing.discard(evaluation_id)
    return None if missing else OutcomeTable(losses, correct, sampled_from=None if sample is None else examples)


def group_ranked_evaluations(
    records: Sequence[EvaluationRecord], board: Leaderboard
) -> dict[RowKey, dict[int, list[EvaluationRecord]]]:
    """The evaluations of each ranked row by seed, from the best row down."""
    by_row: dict[RowKey, dict[int, list[EvaluationRecord]]] = defaultdict(dict)
    for record in records:
        key = record.evaluation.key
        if key.split is board.ranked_on:
            by_row[RowKey.of_evaluation(record.arm, record.point, key)][record.seed] = [record]
    return {row.key: by_row[row.key] for row in board.rows if row.rank is not None}
