"""Optuna: compares the rows of any study over seeds, and ends trials that are certainly worse after a few seeds.

It needs the extra `search`. `compare`, `SeedPruner` and `mean_over_seeds` are the interface.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import numpy as np

from bln_search.api.compare import compare_scores
from bln_search.api.compared_scores import ComparedScores
from bln_search.api.study_table import PRUNED_BY_SEEDS, StudyReading
from bln_search.core.errors import DataError, MissingPackageError
from bln_search.ranking.looks import FIRST_SEEDS_OF_NEWCOMER, level_of_newcomer
from bln_search.ranking.paired.newcomer import p_value_of_newcomer

try:
    import optuna
    from optuna.trial import FrozenTrial, TrialState
except ModuleNotFoundError as error:
    raise MissingPackageError(error.name, "search") from error

_COMPARED_STATES = TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING


def compare(
    study: optuna.Study,
    seeds: str | None = "seed",
    arms: Sequence[str] | None = None,
    *,
    target: Callable[[FrozenTrial], float] | None = None,
    direction: Literal["minimize", "maximize"] | None = None,
    repeated: Literal["raise", "mean"] = "raise",
    practical: float | None = None,
    current: str | None = None,
) -> ComparedScores:
    """Compare the rows of a study over seeds: which one is best, and how sure that is; see `bln_search.compare`.

    A row that lacks a seed of another row is left out if one of its trials was pruned, failed or has not ended. The
    result says so. Waiting trials, and trials that ended before they had these parameters, do not matter.

    Args:
        study: A study in any storage.
        seeds: Parameter or user attribute that holds the seed of a trial. None where a trial has run all seeds, and
            has reported the score of each: `trial.report(score, step=seed)`.
        arms: Parameters and user attributes that identify a row; None for all parameters but the seed.
        target: Returns the score of a completed trial, as in `optuna.visualization`; None for its objective value.
        direction: Whether lower or higher scores are better; None for the direction of the study. A study of several
            objectives needs `target` and `direction`.
        repeated: What happens to different scores of one row under one seed, as of trials that differ in parameters
            that `arms` does not name: `raise` raises an error, `mean` averages them. The best of them is no option:
            being the best of many is partly chance, which no later test can see.
        practical: Difference of mean scores up to which rows are practically equal; None for 1 % of the absolute best
            mean score.
        current: Name of the row in use, such as `rate=0.1`. It stays recommended while its expected score is near
            enough to the best one, or a change may do harm.

    Raises:
        DataError: The scores cannot be compared; the message says which, and what to do.
    """
    if not isinstance(study, optuna.Study):
        raise DataError(f"study is a {type(study).__name__}: give a study of Optuna, or call bln_search.compare")
    if direction not in {None, "minimize", "maximize"} or repeated not in {"raise", "mean"}:
        raise DataError(
            f"direction={direction!r}, repeated={repeated!r}: the direction is 'minimize', 'maximize' or None, and "
            "repeated is 'raise' or 'mean'"
        )
    if isinstance(arms, str):
        raise DataError(f"arms={arms!r} is one text: give a list of names, such as arms=[{arms!r}]")
    if seeds is None and target is not None:
        raise DataError("target= belongs to trials of one seed each; with seeds=None the reported scores are compared")
    lower_is_better = None if direction is None else direction == "minimize"
    scores = StudyReading(seeds, arms, target, lower_is_better, repeated).read(study)
    return compare_scores(scores, practical=practical, current=current)


def mean_over_seeds(trial: optuna.Trial, score: Callable[[int], float], seeds: Iterable[int]) -> float:
    """Mean score of a trial, which reports the score of each seed, and ends if its pruner says so.

    Args:
        trial: The trial of the objective function.
        score: Returns the score of a seed, such as of a training.
        seeds: The seeds, at least one: different integers of at least 0, which are the steps of the reports.

    Raises:
        optuna.TrialPruned: The pruner ends the trial.
        DataError: There is no seed, or one is no such integer.
    """
    scores: dict[int, float] = {}
    for seed in seeds:
        if not isinstance(seed, int | np.integer) or seed < 0 or seed in scores:
            raise DataError(f"trial {trial.number} has the seed {seed!r}: seeds are different integers of at least 0")
        scores[seed] = float(score(seed))
        trial.report(scores[seed], step=seed)
        if trial.should_prune():
            raise optuna.TrialPruned(f"worse after {len(scores)} seeds")
    if not scores:
        raise DataError(f"trial {trial.number} has no seeds: seeds= is empty, and a mean needs at least one")
    return sum(scores.values()) / len(scores)


class SeedPruner(optuna.pruners.BasePruner):
    """Ends a trial that is significantly worse than the best one, while it runs one seed after another.

    The objective reports the score of each seed, with the seed as step, and asks after each whether to go on:
    `mean_over_seeds` does both. From the third seed on the trial is compared with the best earlier trial, seed by
    seed. A seed is any repetition that all trials share, such as a fold. The order of the seeds may differ between
    trials.

    **Error rate.** Let a trial be pruned wrongly if its expected score is at least as good as that of the trial it was
    compared with. In at most 2.5 % of studies any trial is pruned wrongly, whatever the number of trials and seeds:
    the looks at all trials after every seed share this error rate. The other 2.5 % belong to
    `compare(study, seeds=None)`, which then compares the complete trials.

    This holds for normal noise whose size the sampler does not choose. A sampler may choose each point after all
    earlier scores: the noise of a new trial is independent of them, and a better expected score makes it less likely
    that the trial is pruned. Trials may run in parallel; each is compared with trials of lower numbers.

    Trials with a score that is not finite, trials whose differences to the best one are equal under all seeds, and
    trials that have no further seed to save are not pruned.
    """

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Whether the trial is significantly worse than the best one; called by `trial.should_prune()`."""
        steps = list(trial.intermediate_values)
        if len(steps) < FIRST_SEEDS_OF_NEWCOMER:
            return False
        if not np.isfinite(list(trial.intermediate_values.values())).all():
            step = next(step for step in steps if not np.isfinite(trial.intermediate_values[step]))
            warnings.warn(
                f"trial {trial.number} has reported {trial.intermediate_values[step]} at step {step}: SeedPruner does "
                "not prune it. Raise optuna.TrialPruned in the objective to end such a trial",
                stacklevel=2,
            )
            return False
        earlier = [
            other.intermediate_values
            for other in study.get_trials(deepcopy=False, states=_COMPARED_STATES)
            if other.number < trial.number and _has_finite_scores(other, steps)
        ]
        if max(map(len, earlier), default=0) <= len(steps):
            return False  # nothing is left to save, or nothing to compare with
        if PRUNED_BY_SEEDS not in study.user_attrs:
            study.set_user_attr(PRUNED_BY_SEEDS, value=True)
        all_steps = sorted({step for scores in earlier for step in scores})
        rows = [trial.intermediate_values, *earlier]
        losses = np.array([[scores.get(step, np.nan) for scores in rows] for step in all_steps])
        losses[~np.isfinite(losses)] = np.nan  # of seeds that the trial does not have
        if study.direction is optuna.study.StudyDirection.MAXIMIZE:
            losses = -losses
        return p_value_of_newcomer(losses, trial.number) < level_of_newcomer(trial.number, len(steps))


def _has_finite_scores(trial: FrozenTrial, steps: Sequence[int]) -> bool:
    return all(np.isfinite(trial.intermediate_values.get(step, np.nan)) for step in steps)
