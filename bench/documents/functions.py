"""What the templates of generated blocks can call beside their filters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.documents.formats import half_text, summary_text
from bench.documents.row_pairs import RowPairs
from bench.documents.study_losses import losses_of, minus
from bench.support.reporting import load_result, read_result
from bench.support.zoo.survey import KEPT
from bln_search.cli.studies.progress.remaining_time import format_seconds
from bln_search.ranking.per_layer import PerLayerResult
from bln_search.ranking.statistics.intervals import adjust_p_values_by_holm, paired_t_test_p_value_of_differences
from bln_search.reports.sentences.per_layer import per_layer_sentences
from bln_search.specs.sections.space import format_point
from bln_search_papers.ln.retrieval_metrics import RETRIEVAL_METRICS
from papers.experiments.ap2_batch_sizes import BatchSizeRun
from papers.experiments.ap2_cells import Cell, DecayRun
from papers.experiments.factorial import MBN, MBN_ONE_RATE, compute_effects, read_cells


def holm(differences: Sequence[Sequence[float]]) -> list[float]:
    """Return p of the paired t test of each list of differences, by Holm's correction; 1 for a single difference."""
    p_values = [paired_t_test_p_value_of_differences(values) for values in differences]
    return adjust_p_values_by_holm([1.0 if p is None else p for p in p_values])


def group_runs(runs: Iterable[Mapping[str, Any]], columns: Iterable[str]) -> dict[tuple[Any, ...], list[Any]]:
    """Return runs of a driver by the values of columns.

    Raises:
        ValueError: A run lost something.
    """
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for run in runs:
        if any(run["missing"].values()):
            raise ValueError(f"a run lost something: {run}")
        groups.setdefault(tuple(run[column] for column in columns), []).append(run)
    return groups


def kept_layers(reason: str) -> str:
    """Return why a network keeps layers, without the advice."""
    reason = reason.removeprefix(f"{KEPT} and stay as they are: ")
    if "; it has " in reason:
        reason = reason.partition("; it has ")[2].rpartition(": add BLN layers")[0]
    return reason


def first_rows(rows: Iterable[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """Return the first ranked row of each combination of these columns."""
    first: dict[tuple[str | None, ...], dict[str, Any]] = {}
    for row in rows:
        if row["rank"]:
            first.setdefault(tuple(row[key] for key in keys), row)
    return list(first.values())


def point_text(parameters: str | None) -> str:
    """Return the parameters of a row as a leaderboard prints them."""
    return format_point(json.loads(parameters or "{}"))


def per_layer_results(study: str) -> list[PerLayerResult]:
    """Return the per-layer results of the arms of a study."""
    return [PerLayerResult.model_validate(layers) for layers in load_result(f"{study}_layers")["layers"]]


FUNCTIONS: dict[str, Any] = {
    "find": read_result,
    "load": load_result,
    "losses_of": losses_of,
    "minus": minus,
    "row_pairs": RowPairs,
    "holm": holm,
    "groups": group_runs,
    "kept_layers": kept_layers,
    "first_rows": first_rows,
    "point_text": point_text,
    "summary": summary_text,
    "half": half_text,
    "per_layer_results": per_layer_results,
    "per_layer_sentences": per_layer_sentences,
    "seconds_text": format_seconds,
    "cell": Cell,
    "batch_size_run": BatchSizeRun,
    "decay_run": DecayRun,
    "factorial_cells": read_cells,
    "factorial_effects": compute_effects,
    "MBN_FACTORIAL": MBN,
    "MBN_ONE_RATE": MBN_ONE_RATE,
    "retrieval_metrics": RETRIEVAL_METRICS,
    "zip": zip,
    "str": str,
}
"""Functions and constants of the templates."""
