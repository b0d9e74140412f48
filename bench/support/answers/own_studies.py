"""Verdicts of the project's own studies, from the losses by seed in bench/results, and of subsets of their seeds.

Every evaluation setting of a study (arm, estimate, mini-batch size) is a table of seeds and configurations. Only seeds
vary: the answer is about new trainings on these examples.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from bench.support.answers.tables import adjusted_by_t_tests
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.comparison import Comparison, RowVerdict, Verdict
from bln_search.ranking.paired import OutcomeTable, compare_rows
from bln_search.ranking.selection.recommendation import recommend_row
from bln_search.ranking.statistics.intervals import ALPHA

_RESULTS = Path(__file__).parents[2] / "results"
_SUBSETS = 3
"""Number of seeds of a subset."""

_MAX_SUBSETS = 120


def list_tables() -> list[tuple[str, list[RowKey], np.ndarray]]:
    """Name, rows and validation losses (seeds, rows) of every study with three seeds or more and two rows or more."""
    tables = []
    for path in sorted(_RESULTS.glob("*.json")):
        losses = json.loads(path.read_text()).get("loss_and_accuracy_by_seed")
        if not isinstance(losses, dict):
            continue
        by_row: dict[str, dict[int, float]] = {}
        for row, values in losses.items():
            by_seed = {
                int(name.rsplit(" ", 1)[1]): value[0]
                for name, value in values.items()
                if name.startswith("validation seed") and value is not None and value[0] is not None
            }
            if by_seed and np.isfinite(list(by_seed.values())).all():
                by_row[row] = by_seed
        seeds = max((tuple(sorted(by_seed)) for by_seed in by_row.values()), key=len, default=())
        rows = [row for row, by_seed in by_row.items() if tuple(sorted(by_seed)) == seeds]
        if len(seeds) >= _SUBSETS and len(rows) >= 2:
            keys = [RowKey(row, "", _configuration_of(row), None, 1) for row in rows]
            tables.append((path.stem, keys, np.array([[by_row[row][seed] for row in rows] for seed in seeds])))
    return tables


def _configuration_of(row: str) -> InferenceConfiguration:
    return InferenceConfiguration(next(part for part in row.split() if len(part) == 4 and set(part) <= set("TFMBLCA-")))


def compare_losses(keys: list[RowKey], losses: np.ndarray) -> Comparison:
    """Compare rows by their mean losses (seeds, rows): two equal examples for each."""
    values = np.repeat(losses[:, :, None], 2, axis=2).astype(np.float32)
    return compare_rows(keys, OutcomeTable(values, np.zeros(values.shape, bool)), Split.VALIDATION)


def was_decided_before(losses: np.ndarray) -> bool:
    """Whether the best row was significantly better than all others by paired t tests with Holm's correction."""
    first, second = np.triu_indices(losses.shape[1], 1)
    best = int(losses.mean(axis=0).argmin())
    with_best = (first == best) | (second == best)
    return bool((adjusted_by_t_tests(losses)[with_best] < ALPHA).all())


def could_be_decided(losses: np.ndarray, margin: float) -> bool:
    """Whether a test that knows more than a study does could decide for some row.

    It takes the estimated variances of differences for the true ones, and chooses its row without a correction: each
    other row is better by the margin with p < 5 %.
    """
    for row in range(losses.shape[1]):
        differences = losses[:, [row]] - losses
        errors = differences.std(axis=0, ddof=1) / np.sqrt(len(losses))
        upper = differences.mean(axis=0) + special.ndtri(1 - ALPHA) * errors
        if (np.delete(upper, row) < margin).all():
            return True
    return False


def measure_own_studies() -> list[dict[str, Any]]:
    """The verdict of each study before and now."""
    results = []
    for name, keys, losses in list_tables():
        comparison = compare_losses(keys, losses)
        recommendation = recommend_row(comparison, {})
        results.append(
            {
                "study": name,
                "rows": len(keys),
                "seeds": len(losses),
                "decided_before": was_decided_before(losses),
                "could_be_decided": could_be_decided(losses, comparison.margin),
                "verdict": str(recommendation.verdict),
                "open_rows": len(comparison.open_rows),
            }
        )
    return results


def measure_subsets(seeds: int = 10) -> dict[str, Any]:
    """Verdicts of every subset of three seeds of the studies with so many, against those of all seeds.

    A verdict is wrong if a row is called worse than another whose mean loss over all seeds is higher, or if a row is
    recommended as practically equal whose loss over all seeds is above the lowest by more than the margin.
    """
    counts: dict[str, int] = defaultdict(int)
    for _, keys, losses in list_tables():
        if len(losses) != seeds:
            continue
        means = dict(zip(keys, losses.mean(axis=0), strict=True))
        for subset in itertools.islice(itertools.combinations(range(seeds), _SUBSETS), _MAX_SUBSETS):
            comparison = compare_losses(keys, losses[list(subset)])
            best = means[comparison.rows[0].key]
            for row in comparison.rows[1:]:
                counts["row_verdicts"] += row.verdict is not RowVerdict.CANNOT_TELL
                counts["wrong_rows"] += row.is_worse and means[row.key] < best
            recommendation = recommend_row(comparison, {})
            counts["answers"] += recommendation.verdict is not Verdict.CANNOT_TELL
            excess = means[recommendation.key] - min(means.values())
            counts["wrong_answers"] += recommendation.verdict is not Verdict.CANNOT_TELL and excess > comparison.margin
            counts["subsets"] += 1
    return {name: int(count) for name, count in counts.items()}
