"""Searches of a schedule that are compared at equal numbers of trained epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, stdev
from typing import Any

from scipy.stats import spearmanr

from bln_search.ranking.statistics.intervals import mean_with_t_interval, paired_t_test_p_value_of_differences


@dataclass(frozen=True)
class SearchTrial:
    """A trial of a search.

    Attributes:
        steps: Values of the schedule.
        losses: Validation loss after each trained epoch.
        is_finished: Whether it was trained to its end; otherwise the pruner stopped it.
    """

    steps: tuple[float, ...]
    losses: tuple[float, ...]
    is_finished: bool


@dataclass(frozen=True)
class SearchRun:
    """A search.

    Attributes:
        trials: Its trials in the order of suggestion.
        validation_losses: Of the best schedule, trained with new seeds, by seed.
        test_errors: The same on test, in %.
    """

    trials: tuple[SearchTrial, ...]
    validation_losses: Mapping[int, float]
    test_errors: Mapping[int, float]

    @property
    def epochs(self) -> int:
        """Number of trained epochs, those of stopped trials included."""
        return sum(len(trial.losses) for trial in self.trials)

    @property
    def num_stopped(self) -> int:
        """Number of trials that the pruner stopped."""
        return sum(not trial.is_finished for trial in self.trials)

    @cached_property
    def best(self) -> SearchTrial:
        """The finished trial of lowest loss after its last epoch."""
        return min((trial for trial in self.trials if trial.is_finished), key=lambda trial: trial.losses[-1])

    @property
    def best_loss(self) -> float:
        """Its loss."""
        return self.best.losses[-1]

    def best_loss_after(self, epochs: int) -> float | None:
        """Return the lowest loss of the trials that were finished within this number of epochs; None without any."""
        spent, losses = 0, []
        for trial in self.trials:
            spent += len(trial.losses)
            if trial.is_finished and spent <= epochs:
                losses.append(trial.losses[-1])
        return min(losses, default=None)


Pair = Mapping[str, SearchRun]
"""A search of each kind, with the same start."""

KINDS = ("tpe", "random")


def summarize_searches(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return what the searches found by trained epochs, their differences, and what their best schedules look like."""
    runs = {kind: [pair[kind] for pair in pairs] for kind in KINDS}
    complete = [trial for run in runs["random"] for trial in run.trials if trial.is_finished]
    epochs_of_trial = len(complete[0].losses)
    budget = min(run.epochs for of_kind in runs.values() for run in of_kind)
    best = {kind: [run.best_loss for run in of_kind] for kind, of_kind in runs.items()}
    errors = {kind: [fmean(run.test_errors.values()) for run in of_kind] for kind, of_kind in runs.items()}
    return {
        "pairs": len(pairs),
        "epochs_of_trial": epochs_of_trial,
        "epochs": {kind: [run.epochs for run in of_kind] for kind, of_kind in runs.items()},
        "trials": {kind: [len(run.trials) for run in of_kind] for kind, of_kind in runs.items()},
        "stopped": {kind: [run.num_stopped for run in of_kind] for kind, of_kind in runs.items()},
        "by_epochs": {kind: _best_by_epochs(of_kind, epochs_of_trial, budget) for kind, of_kind in runs.items()},
        "best_loss": {kind: _describe(values) for kind, values in best.items()},
        "best_loss_difference": _describe(_differences(best)),
        "test_error": {kind: _describe(values) for kind, values in errors.items()},
        "test_error_difference": _describe(_differences(errors)),
        "best_schedules": {kind: [list(run.best.steps) for run in of_kind] for kind, of_kind in runs.items()},
        "rising": {kind: sum(_is_rising(run.best.steps) for run in of_kind) for kind, of_kind in runs.items()},
        "random_schedules": len(complete),
        "rank_correlation": _correlations_of_steps(complete),
        "deviation_over_schedules": stdev(trial.losses[-1] for trial in complete),
        "deviation_over_seeds": fmean(stdev(run.validation_losses.values()) for pair in pairs for run in pair.values()),
    }


def _differences(values: Mapping[str, Sequence[float]]) -> list[float]:
    return [first - second for first, second in zip(*(values[kind] for kind in KINDS), strict=True)]


def _best_by_epochs(runs: Sequence[SearchRun], step: int, budget: int) -> list[dict[str, Any]]:
    """Return the lowest loss so far after every `step` epochs, as soon as each search has a finished trial."""
    rows = []
    for epochs in range(step, budget + 1, step):
        losses = [loss for run in runs if (loss := run.best_loss_after(epochs)) is not None]
        if len(losses) == len(runs):
            rows.append({"epoch": epochs, **_describe(losses)})
    return rows


def _describe(values: Sequence[float]) -> dict[str, Any]:
    """Return values with their mean, its 95 % interval, and p of a zero mean."""
    interval = mean_with_t_interval(values)
    band = None if interval.half is None else [interval.low, interval.high]
    return {
        "seeds": list(values),
        "mean": interval.mean,
        "half": interval.half,
        "band": band,
        "p": paired_t_test_p_value_of_differences(values),
    }


def _correlations_of_steps(trials: Sequence[SearchTrial]) -> list[dict[str, float]]:
    """Return Spearman's rank correlation of each step of the schedule with the loss, and its p value."""
    losses = [trial.losses[-1] for trial in trials]
    results = [spearmanr(values, losses) for values in zip(*(trial.steps for trial in trials), strict=True)]
    return [{"correlation": float(result.statistic), "p": float(result.pvalue)} for result in results]


def _is_rising(steps: Sequence[float]) -> bool:
    return list(steps) == sorted(steps)
