"""Values by seed that claims compare; the functions of their expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from bench.documents.study_losses import Values, losses_of
from bench.support.reporting import load_result
from papers.experiments.ap2_batch_sizes import BatchSizeRun
from papers.experiments.ap2_cells import Cell, DecayRun, rate_mark
from papers.experiments.bln import EXPERIMENTS, rank_correlation, switch_effect
from papers.experiments.configuration_cells import dependence_mark


def by_position(values: Iterable[float], factor: float = 1.0) -> Values:
    """Return values by their position, times `factor`."""
    return {position: factor * value for position, value in enumerate(values)}


def epoch(study: str, arm: str, measure: str, number: int = -1) -> Values:
    """Return a measure of an arm after an epoch, by default the last one, by position of the seed."""
    records = load_result(f"{study}_curves")["arms"][arm][measure]
    return by_position(records[number if number < 0 else number - 1]["seeds"])


def lowest(study: str, arm: str, measure: str, epochs: int | None = None) -> Values:
    """Return the lowest value of a measure in the first epochs, by default in all, by position of the seed."""
    records = load_result(f"{study}_curves")["arms"][arm][measure][:epochs]
    return by_position(map(min, zip(*(record["seeds"] for record in records), strict=True)))


def relative_change(arm: str, layer: int, measure: str) -> Values:
    """Return the change of a measure of the geometry study from the first to the last epoch, relative to the first."""
    by_epoch = list(load_result("geometry")["result"]["arms"][arm].values())[layer - 1][measure]
    return by_position(last / first - 1 for first, last in zip(by_epoch[0], by_epoch[-1], strict=True))


def tuning_change(kind: str) -> Values:
    """Return the change of BLN's validation loss by further training of a kind."""
    runs = load_result("fine_tuning")["result"]["runs"]
    (records,) = (runs[name] for name in runs if name.startswith("bln") and name.endswith(f" | {kind}"))
    return {run["seed"]: run["loss after"] - run["loss before"] for run in records}


def published_order(data: str, size: str) -> tuple[str, ...]:
    """Return the sixteen configurations that the BLN paper publishes, best first."""
    return EXPERIMENTS[data].published[size]


VALUES: dict[str, Callable[..., Any]] = {
    "losses": losses_of,
    "load": load_result,
    "by_position": by_position,
    "epoch": epoch,
    "lowest": lowest,
    "relative_change": relative_change,
    "tuning_change": tuning_change,
    "published_order": published_order,
    "switch_effect": switch_effect,
    "rank_correlation": rank_correlation,
    "cell": Cell,
    "decay": DecayRun,
    "rate_mark": rate_mark,
    "batch_size_run": BatchSizeRun,
    "dependence_mark": dependence_mark,
}
"""Functions of the expressions."""
