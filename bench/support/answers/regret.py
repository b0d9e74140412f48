"""What recommendations cost in simulated studies with a row in use, by several rules.

The losses of a study vary over examples. The true loss of a row is its mean over all examples, for the networks of the
study. Regret is the true loss of the recommended row minus the lowest true loss.

Rules, beside that of the product: the lowest mean loss; the row in use unless the lowest is significantly better than
it (5 %, Holm); and the rule of version 0.2, which replaces the row in use by the best of the rows that are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from bln_search.core.configuration import all_configurations
from bln_search.core.enums import Split
from bln_search.core.method import Method
from bln_search.core.records import RowKey
from bln_search.ranking.paired import OutcomeTable, compare_rows
from bln_search.ranking.paired.crossed_anova import contrast_variances_of_pairs
from bln_search.ranking.selection.expected_loss import DEFAULT_MARGIN
from bln_search.ranking.selection.recommendation import recommend_row
from bln_search.ranking.statistics.intervals import ALPHA

EFFECTS = (0.0, 0.02, 0.1, 0.5, 2.0)
"""Standard deviations of the true losses of rows, nats."""

EXAMPLES = (100, 400, 2_000)
NETWORKS = (1, 2, 3, 5)
SHAPES = ("normal", "one better", "row in use worse", "half worse")
ROWS = [RowKey("bln", "", configuration, None, 8) for configuration in all_configurations(Method.BLN)]
_IN_USE = 0


def _true_losses(shape: str, effect: float, rng: np.random.Generator) -> np.ndarray:
    rows = len(ROWS)
    losses = {
        "normal": effect * rng.normal(size=rows),
        "one better": np.where(np.arange(rows) == rng.integers(rows), -effect, 0.0),
        "row in use worse": np.where(np.arange(rows) == _IN_USE, effect, 0.0),
        "half worse": effect * rng.integers(0, 2, rows),
    }
    return losses[shape]


def _simulate(
    shape: str, effect: float, examples: int, networks: int, rng: np.random.Generator
) -> tuple[np.ndarray, OutcomeTable]:
    """True losses of the rows for these networks, (K,), and the outcomes."""
    of_networks = _true_losses(shape, effect, rng) + 0.3 * effect * rng.normal(size=(networks, len(ROWS)))
    scale = np.exp(0.5 * rng.normal(size=(len(ROWS), 1)))
    noise = rng.exponential(size=examples) + scale * (rng.exponential(size=(len(ROWS), examples)) - 1)
    losses = of_networks[:, :, None] + noise + 0.3 * rng.normal(size=(networks, len(ROWS), examples))
    table = OutcomeTable(losses.astype(np.float32), np.ones(losses.shape, bool))
    return of_networks.mean(axis=0), table


def _recommend_now(table: OutcomeTable) -> int:
    comparison = compare_rows(ROWS, table, Split.VALIDATION, current=ROWS[_IN_USE])
    return ROWS.index(recommend_row(comparison, {}).key)


def _lowest(table: OutcomeTable) -> int:
    return int(table.losses.mean(axis=(0, 2)).argmin())


def _significantly_better(table: OutcomeTable) -> list[int]:
    """Rows that are significantly better than the row in use on these networks, the best one first."""
    others = np.array([row for row in range(len(ROWS)) if row != _IN_USE])
    pairs = np.full(len(others), _IN_USE), others
    gains = contrast_variances_of_pairs(table.average_over_seeds().losses, "loss", pairs).test()
    better = (gains.mean > 0) & (gains.adjusted < ALPHA)
    return [int(others[index]) for index in np.argsort(-gains.mean) if better[index]]


def _unless_significant(table: OutcomeTable) -> int:
    lowest = _lowest(table)
    return lowest if lowest in _significantly_better(table) else _IN_USE


def _recommend_before(table: OutcomeTable) -> int:
    return next(iter(_significantly_better(table)), _IN_USE)


RULES: dict[str, Callable[[OutcomeTable], int]] = {
    "now": _recommend_now,
    "lowest": _lowest,
    "unless significant": _unless_significant,
    "before": _recommend_before,
}


def list_cells() -> list[tuple[int, str, float, int]]:
    """Number, shape, standard deviation of the effects, and number of examples of each cell."""
    cells = [cell for cell in itertools.product(SHAPES, EFFECTS, EXAMPLES) if cell[1] > 0 or cell[0] == SHAPES[0]]
    return [(number, *cell) for number, cell in enumerate(cells)]


def measure_regret(index: int, shape: str, effect: float, examples: int, cases: int) -> dict[str, Any]:
    """Mean regret of each rule in a cell, and how often its row is worse than that in use by more than the margin."""
    rng = np.random.default_rng([index, 54])
    regret: dict[str, list[float]] = {name: [] for name in RULES}
    harm: dict[str, list[bool]] = {name: [] for name in RULES}
    for number in range(cases):
        true, table = _simulate(shape, effect, examples, NETWORKS[number % len(NETWORKS)], rng)
        for name, rule in RULES.items():
            row = rule(table)
            regret[name].append(float(true[row] - true.min()))
            harm[name].append(bool(true[row] - true[_IN_USE] > DEFAULT_MARGIN))
    return {
        "shape": shape,
        "effect": effect,
        "examples": examples,
        "cases": cases,
        "regret": {name: float(np.mean(values)) for name, values in regret.items()},
        "regret_error": {
            name: float(np.std(np.subtract(regret["now"], values)) / np.sqrt(cases)) for name, values in regret.items()
        },
        "worse_than_row_in_use": {name: float(np.mean(values)) for name, values in harm.items()},
    }
