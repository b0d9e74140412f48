"""How often a verdict is false: in tables of equal rows, at the margin, over looks; and how often it is found."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bench.support.answers.tables import (
    KINDS,
    Floats,
    adjusted_by_t_tests,
    adjusted_with_known_variances,
    compare_with_row,
    draw_seed_means,
    scales_of_rows,
)
from bln_search.core.configuration import all_configurations
from bln_search.core.enums import Split
from bln_search.core.method import Method
from bln_search.core.records import RowKey
from bln_search.ranking.comparison import RowVerdict, Verdict
from bln_search.ranking.looks import level_of_look
from bln_search.ranking.paired import compare_rows
from bln_search.ranking.paired.differences_to_best import differences_to_best
from bln_search.ranking.paired.table import OutcomeTable
from bln_search.ranking.selection.recommendation import recommend_row
from bln_search.ranking.statistics.intervals import ALPHA
from bln_search.specs.sections.seeds import PLANNED_LOOKS

EFFECT = 5.0
"""Standard deviations of the difference of the two rows under one seed."""

CONFIGURATIONS = [RowKey("bln", "", configuration, None, 8) for configuration in all_configurations(Method.BLN)]


def _smallest_adjusted(means: Floats) -> float:
    """The smallest corrected p value of a difference to the best row."""
    best = int(means.mean(axis=0).argmin())
    return float(np.delete(compare_with_row(means, best).adjusted, best).min())


def measure_error(kind: str, rows: int, seeds: int, tables: int) -> dict[str, Any]:
    """Share of tables of equal rows in which one is significantly worse than the best one."""
    rng = np.random.default_rng([KINDS.index(kind), rows, seeds])
    found = 0
    for _ in range(tables):
        means = draw_seed_means(rng, seeds, scales_of_rows(kind, rows, rng), in_blocks=kind == "correlated")
        found += _smallest_adjusted(means) < ALPHA
    return {"variances": kind, "rows": rows, "seeds": seeds, "now": found / tables}


def measure_error_over_examples(rows: int, seeds: int, examples: int, tables: int) -> dict[str, Any]:
    """The same over seeds and examples: exponential effects of examples, log-normal variances between seeds."""
    rng = np.random.default_rng([rows, seeds, examples])
    alarms = 0
    for _ in range(tables):
        scales = scales_of_rows("log-normal", rows, rng) / math.sqrt(examples) * (seeds > 1)  # else one network's rows
        losses = (
            rng.exponential(size=examples)
            + scales[:, None] * rng.normal(size=(seeds, rows, 1))
            + (rng.exponential(size=(rows, examples)) - 1)
            + 0.5 * (rng.exponential(size=(seeds, rows, examples)) - 1)
        ).astype(np.float32)
        table = OutcomeTable(losses, np.zeros(losses.shape, bool), has_correctness=False)
        best = int(losses.mean(axis=(0, 2)).argmin())
        alarms += bool(differences_to_best(table, "loss", best).adjusted.min() < ALPHA)
    return {"rows": rows, "seeds": seeds, "examples": examples, "now": alarms / tables}


def measure_error_at_margin(kind: str, rows: int, seeds: int, error: float, tables: int) -> dict[str, Any]:
    """Share of tables with a false `practically equal`, where one row is better than all others by the margin.

    Rows: one of them is called practically equal to the true best one. Recommendation: another row than the true best
    one is recommended, and called practically equal.

    Args:
        kind: How much rows vary between seeds.
        rows: Number of rows, of which the most preferred one is not the best.
        seeds: Number of seeds.
        error: Standard error of a difference of rows of scale 1, in margins.
        tables: Number of tables.
    """
    rng = np.random.default_rng([KINDS.index(kind), rows, seeds, round(100 * error)])
    unit = error * math.sqrt(seeds / 2)
    false_rows = false_recommendations = 0
    for _ in range(tables):
        best = int(rng.integers(1, rows))
        means = unit * draw_seed_means(rng, seeds, scales_of_rows(kind, rows, rng)) + (np.arange(rows) != best)
        values = np.repeat(means[:, :, None], 2, axis=2).astype(np.float32)
        table = OutcomeTable(values, np.zeros(values.shape, bool))
        comparison = compare_rows(CONFIGURATIONS[:rows], table, Split.VALIDATION, margin=1.0)
        recommendation = recommend_row(comparison, {})
        if comparison.rows[0].key == CONFIGURATIONS[best]:
            false_rows += any(row.verdict is RowVerdict.PRACTICALLY_EQUAL for row in comparison.rows)
        is_wrong = recommendation.key != CONFIGURATIONS[best]
        false_recommendations += is_wrong and recommendation.verdict is not Verdict.CANNOT_TELL
    return {
        "variances": kind,
        "rows": rows,
        "seeds": seeds,
        "error": error,
        "now": false_rows / tables,
        "recommendation": false_recommendations / tables,
    }


def measure_error_over_looks(kind: str, rows: int, tables: int) -> dict[str, Any]:
    """Share of tables of equal rows with a significant difference at any look, at 3, 5, 10 and 20 seeds."""
    rng = np.random.default_rng([KINDS.index(kind), rows, 20])
    found = {"planned": 0, "not planned": 0, "each at 5 %": 0}
    for _ in range(tables):
        means = draw_seed_means(rng, PLANNED_LOOKS[-1], scales_of_rows(kind, rows, rng))
        p = np.array([_smallest_adjusted(means[:seeds]) for seeds in PLANNED_LOOKS])
        levels = {name: [level_of_look(k, planned=name == "planned") for k in range(len(p))] for name in found}
        levels["each at 5 %"] = [ALPHA] * len(p)
        for name in found:
            found[name] += bool((p < levels[name]).any())
    return {"variances": kind, "rows": rows, **{name: count / tables for name, count in found.items()}}


def measure_power(kind: str, seeds: int, tables: int, rows: int = 16) -> dict[str, Any]:
    """Share of tables in which a row that is worse than all others is found to be worse than a given one."""
    rng = np.random.default_rng([KINDS.index(kind), seeds])
    scales = scales_of_rows(kind, rows, np.random.default_rng(5))
    found = {"now": 0, "before": 0, "known": 0}
    for _ in range(tables):
        worse, other = (int(row) for row in rng.choice(rows, 2, replace=False))
        means = draw_seed_means(rng, seeds, scales)
        means[:, worse] += EFFECT * math.hypot(scales[worse], scales[other])
        first, second = np.triu_indices(rows, 1)
        pair = np.flatnonzero((first == min(worse, other)) & (second == max(worse, other)))[0]
        found["now"] += bool(compare_with_row(means, other).adjusted[worse] < ALPHA)
        found["before"] += bool(adjusted_by_t_tests(means)[pair] < ALPHA)
        found["known"] += bool(adjusted_with_known_variances(means, scales)[pair] < ALPHA)
    return {"variances": kind, "rows": rows, "seeds": seeds, **{name: count / tables for name, count in found.items()}}
