"""Measures by epoch of every arm of a study, and the rows of its networks on test."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import RowKey
from bln_search.ranking.comparison import ComparedRow
from bln_search.ranking.leaderboard import LeaderboardRow, build_leaderboard_from_evaluations
from bln_search.ranking.statistics.intervals import mean_with_t_interval
from bln_search.specs.records import StudyRecord
from bln_search.specs.sections.arm import ArmSpec
from bln_search.specs.sections.space import format_point
from bln_search.storage.ledger import Ledger
from bln_search.worker.analysis import compare_best_ranked_rows

MAX_CURVES = 1000
Epochs = Sequence[Mapping[str, Any]]
"""The records of the epochs of one network."""


def collect_curves(ledger: Ledger, study: StudyRecord) -> dict[str, Any]:
    """Return measures by epoch and test results of every arm at every point, and the comparison of their rows."""
    runs: dict[tuple[str, str], list[Epochs]] = {}
    for curve in ledger.trial_lists.list_charted_learning_curves(study.id, MAX_CURVES):
        runs.setdefault((curve.trial.arm, curve.trial.point_json), []).append(curve.epochs)
    board = ledger.results.rank_rows_of_study(study.id, study.spec, on=Split.VALIDATION)
    specs = {arm.label: arm for arm in study.spec.arms}
    arms: dict[str, Any] = {}
    keys: list[RowKey] = []
    for (label, point), seeds in runs.items():
        rows = [row for row in board.rows if (row.arm, row.point) == (label, point) and row.rank]
        usual = _find_usual_row(rows, specs[label])
        keys += [row.key for row in (usual, *rows[:1]) if row is not None]
        arms[" ".join(part for part in (label, format_point(json.loads(point or "{}"))) if part)] = {
            "arm": label,
            **measures_by_epoch(seeds),
            "training_seconds": [sum(epoch["seconds"] for epoch in epochs) for epochs in seeds],
            "rows": [describe_row(row) for row in rows],
            "usual": None if usual is None else describe_row(usual),
            "best_on_validation": describe_row(rows[0]) if rows else None,
        }
    return {
        "study": study.name,
        "spec": study.spec.model_dump(mode="json"),
        "seeds": list(study.spec.all_seeds),
        "loss": study.spec.loss_description.text,
        "arms": arms,
        "compared": _compare_rows(ledger, study, keys),
    }


def measures_by_epoch(seeds: Sequence[Epochs]) -> dict[str, list[dict[str, Any]]]:
    """Return losses, accuracies, and errors in %, by epoch; those on test with the suffix `_by_epoch`."""
    measures: dict[str, list[dict[str, Any]]] = {}
    for split in ("training", "validation", "test"):
        suffix = "_by_epoch" if split == "test" else ""
        if f"{split}_loss" in seeds[0][0]:
            measures[f"{split}_loss{suffix}"] = values_by_epoch(seeds, f"{split}_loss")
        if seeds[0][0].get(accuracy := f"{split}_accuracy") is not None:
            measures[f"{accuracy}{suffix}"] = values_by_epoch(seeds, accuracy)
            errors = [[{accuracy: 100 * (1 - epoch[accuracy])} for epoch in epochs] for epochs in seeds]
            measures[f"{split}_error{suffix}"] = values_by_epoch(errors, accuracy)
    return measures


def values_by_epoch(seeds: Iterable[Epochs], key: str) -> list[dict[str, Any]]:
    """Return for every epoch the values of all seeds, their mean and its 95 % interval, which is None for one seed."""
    summaries = []
    for number, epochs in enumerate(zip(*seeds, strict=True), start=1):
        values = [epoch[key] for epoch in epochs]
        interval = mean_with_t_interval(values)
        band = None if interval.half is None else [interval.low, interval.high]
        summaries.append({"epoch": number, "seeds": values, "mean": interval.mean, "band": band})
    return summaries


def describe_row(row: LeaderboardRow) -> dict[str, Any]:
    """Return a row with its losses by split, and on test its error in % and the metrics of its task."""
    test = row.metrics[Split.TEST]
    described = {
        "row": " ".join(str(part) for part in (row.configuration, row.estimate) if part),
        "configuration": str(row.configuration),
        "population": str(row.estimate) if row.estimate else None,
        **{f"{split}_loss": row.metrics[split].loss.mean for split in Split if split in row.metrics},
        "test_loss_deviation": test.loss.deviation,
        "test_metrics": {name: [value.mean, value.deviation] for name, value in test.task_metrics.items()},
        **{f"{split}_gap": list(gap) for split, gap in row.gaps.items()},
    }
    if test.accuracy is not None:
        deviation = test.accuracy.deviation
        described["test_error"] = 100 * (1 - test.accuracy.mean)
        described["test_error_deviation"] = None if deviation is None else 100 * deviation
    return described


def _find_usual_row(rows: Sequence[LeaderboardRow], arm: ArmSpec) -> LeaderboardRow | None:
    """Return the row of the configuration that selects checkpoints, with moving averages where it has a population."""
    configuration = arm.checkpoint_selection_configuration
    estimate = PopulationEstimate.MOVING if configuration.uses_population else None
    return next((row for row in rows if (row.configuration, row.estimate) == (configuration, estimate)), None)


def _compare_rows(ledger: Ledger, study: StudyRecord, keys: Sequence[RowKey]) -> dict[str, Any] | None:
    """Return the comparison of these rows with the best of them; None if the analysis has none."""
    records = ledger.results.list_clean_evaluations(study.id)
    board = build_leaderboard_from_evaluations(
        (record.as_trial_evaluation for record in records), study.spec.ranking.split, seeds=study.spec.ranked_seeds
    )
    comparison, _ = compare_best_ranked_rows(ledger.results, records, board, keys)
    if comparison is None:
        return None
    best, *others = comparison.rows
    pairs = [_compare_pair(best, row) for row in others]
    return {"split": comparison.split, "examples": comparison.examples, "rows": len(comparison.rows), "pairs": pairs}


def _compare_pair(best: ComparedRow, row: ComparedRow) -> dict[str, Any]:
    interval = row.above_best.with_rows_swapped
    first, second = (
        " ".join(part for part in (each.arm, each.configuration, each.estimate) if part) for each in (best, row)
    )
    numbers = {"mean": interval.mean, "low": interval.low, "high": interval.high, "adjusted": interval.adjusted}
    return {"first": first, "second": second, "apart": row.is_worse, **numbers}
