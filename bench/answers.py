"""Error and power of the comparison of rows in simulated tables, beside Student's t test with Holm's correction.

Error: the share of tables of equal rows in which any two rows differ significantly (5 %). Power: the share of tables in
which a row that is worse than all others differs from a given one, where its loss is higher by five standard deviations
of the difference of the two under one seed. The rows differ in how much they vary between seeds: all alike, in two
groups 1 : 10, one row thirty times or two rows ten times as much, log-normally, or pairs of rows nearly alike. `known`:
the same bound with the true distribution of the variances of all pairs, which a study does not know.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bench.support.reporting import finish, make_parser
from bln_search.ranking.paired.crossed_anova import ContrastVariances, crossed_anova_differences
from bln_search.ranking.paired.table import OutcomeTable
from bln_search.ranking.statistics.intervals import ALPHA

Floats = NDArray[np.float64]

SEEDS = (3, 5, 10)
ROWS = (2, 4, 8, 16, 48)
EFFECT = 5.0
"""Standard deviations of the difference of the two rows under one seed."""

EXAMPLES = (50, 500, 5_000)


def _scales(kind: str, rows: int, rng: np.random.Generator) -> Floats:
    """Standard deviation of each row between seeds."""
    row = np.arange(rows)
    scales = {
        "equal": np.ones(rows),
        "two groups": np.where(row < rows // 2, 1.0, 10.0),
        "one outlier": np.where(row < rows - 1, 1.0, 30.0),
        "log-normal": np.exp(rng.normal(size=rows)),
        "pairs nearly alike": np.where(row % 4 < 2, 0.05, 1.0),
        "correlated": np.ones(rows),
        "two outliers": np.where(row < rows - 2, 1.0, 10.0),
    }
    return scales[kind]


KINDS = ("equal", "two groups", "one outlier", "log-normal", "pairs nearly alike", "correlated", "two outliers")
KINDS_OF_POWER = KINDS[:5]


def _draw_seed_means(rng: np.random.Generator, seeds: int, scales: Floats, *, in_blocks: bool) -> Floats:
    """Mean losses (S, R) of equal rows; in blocks, rows of one of four blocks have an effect of the seed in common."""
    means = rng.normal(size=(seeds, 1)) + scales * rng.normal(size=(seeds, len(scales)))
    if in_blocks:
        means += 3 * rng.normal(size=(seeds, 4))[:, np.arange(len(scales)) % 4]
    return means


def _contrasts(means: Floats) -> tuple[ContrastVariances, tuple[NDArray[np.intp], NDArray[np.intp]]]:
    first, second = pairs = np.triu_indices(means.shape[1], 1)
    differences = means[:, first] - means[:, second]
    seeds, none = len(means), np.zeros(len(first))
    variances = differences.var(axis=0, ddof=1) / seeds
    return ContrastVariances(seeds, differences.mean(axis=0), variances, [(none, 10_000)]), pairs


def adjusted_now(means: Floats) -> Floats:
    """Corrected p values of all pairs."""
    contrasts, pairs = _contrasts(means)
    return contrasts.test(pairs, means.shape[1]).adjusted


def adjusted_by_t_tests(means: Floats) -> Floats:
    """Those of Student's paired t test, corrected by Holm's method."""
    return _contrasts(means)[0].test().adjusted


def adjusted_with_known_variances(means: Floats, scales: Floats) -> Floats:
    """Those of the test that knows the distribution of the variances; the same bound over rows as the product has."""
    contrasts, (first, second) = _contrasts(means)
    variances = (scales[first] ** 2 + scales[second] ** 2) / contrasts.seeds
    degrees, rows = contrasts.seeds - 1, len(scales)
    ratios = degrees / 2 * contrasts.of_seeds[:, None] / variances
    weights = np.exp(degrees / 2 * np.log(ratios) - ratios)
    weights /= weights.sum(axis=1, keepdims=True)
    tails = special.ndtr(-np.abs(contrasts.mean)[:, None] / np.sqrt(variances))
    adjusted: Floats = rows * (weights * np.minimum(1.0, (rows - 1) * tails)).sum(axis=1)
    return adjusted


def measure_error(kind: str, rows: int, seeds: int, tables: int) -> dict[str, Any]:
    """Share of tables of equal rows with a significant difference."""
    rng = np.random.default_rng([KINDS.index(kind), rows, seeds])
    found = {"now": 0, "before": 0}
    for _ in range(tables):
        means = _draw_seed_means(rng, seeds, _scales(kind, rows, rng), in_blocks=kind == "correlated")
        found["now"] += bool(adjusted_now(means).min() < ALPHA)
        found["before"] += bool(adjusted_by_t_tests(means).min() < ALPHA)
    return {"variances": kind, "rows": rows, "seeds": seeds, **{name: count / tables for name, count in found.items()}}


def measure_error_over_examples(rows: int, seeds: int, examples: int, tables: int) -> dict[str, Any]:
    """The same over seeds and examples: exponential effects of examples, log-normal variances between seeds."""
    rng = np.random.default_rng([rows, seeds, examples])
    alarms = 0
    for _ in range(tables):
        scales = _scales("log-normal", rows, rng) / math.sqrt(examples) * (seeds > 1)  # else rows of one network differ
        losses = (
            rng.exponential(size=examples)
            + scales[:, None] * rng.normal(size=(seeds, rows, 1))
            + (rng.exponential(size=(rows, examples)) - 1)
            + 0.5 * (rng.exponential(size=(seeds, rows, examples)) - 1)
        ).astype(np.float32)
        table = OutcomeTable(losses, np.zeros(losses.shape, bool), has_correctness=False)
        alarms += bool(crossed_anova_differences(table, "loss").adjusted.min() < ALPHA)
    return {"rows": rows, "seeds": seeds, "examples": examples, "now": alarms / tables}


def measure_power(kind: str, seeds: int, tables: int, rows: int = 16) -> dict[str, Any]:
    """Share of tables in which one true difference is found."""
    rng = np.random.default_rng([KINDS.index(kind), seeds])
    scales = _scales(kind, rows, np.random.default_rng(5))
    tests: dict[str, Callable[[Floats], Floats]] = {
        "now": adjusted_now,
        "before": adjusted_by_t_tests,
        "known": lambda means: adjusted_with_known_variances(means, scales),
    }
    found = dict.fromkeys(tests, 0)
    for _ in range(tables):
        worse, other = rng.choice(rows, 2, replace=False)
        means = _draw_seed_means(rng, seeds, scales, in_blocks=False)
        means[:, worse] += EFFECT * math.hypot(scales[worse], scales[other])
        first, second = np.triu_indices(rows, 1)
        pair = np.flatnonzero((first == min(worse, other)) & (second == max(worse, other)))[0]
        for name, test in tests.items():
            found[name] += bool(test(means)[pair] < ALPHA)
    return {"variances": kind, "rows": rows, "seeds": seeds, **{name: count / tables for name, count in found.items()}}


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    tables, example_tables = (100, 40) if options.quick else (500, 200)
    errors = []
    for kind in KINDS:
        for rows in ROWS:
            for seeds in SEEDS:
                errors.append(measure_error(kind, rows, seeds, tables if rows < max(ROWS) else tables // 4))
                print("error", errors[-1], flush=True)
    over_examples = []
    for examples in EXAMPLES:
        for seeds in (1, *SEEDS):
            count = example_tables if examples < max(EXAMPLES) else example_tables // 4
            over_examples.append(measure_error_over_examples(8, seeds, examples, count))
            print("error over examples", over_examples[-1], flush=True)
    powers = []
    for kind in KINDS_OF_POWER:
        for seeds in SEEDS:
            powers.append(measure_power(kind, seeds, tables))
            print("power", powers[-1], flush=True)
    finish(
        "answers",
        {
            "false_better_max": max(case["now"] for case in (*errors, *over_examples)),
            "power_three_seeds": {case["variances"]: case["now"] for case in powers if case["seeds"] == SEEDS[0]},
            "tables": tables,
            "effect": EFFECT,
            "error": errors,
            "error_over_examples": over_examples,
            "power": powers,
        },
        save=options.save,
    )


if __name__ == "__main__":
    main()
