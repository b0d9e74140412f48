"""Wrong prunings of `SeedPruner` among equal arms, and the seeds that it saves among unequal ones, in Optuna.

Every study is one of Optuna with simulated scores: the mean of its arm, an effect of the seed that all arms share, and
normal noise. A study is wrong if a trial is pruned, or called worse by `compare` at its end, whose mean is that of the
best arm. Optuna's WilcoxonPruner with its defaults is measured beside it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import optuna

from bench.support.answers.tables import scales_of_rows
from bench.support.reporting import finish, make_parser
from bln_search.core.errors import DataError
from bln_search.integrations.optuna import SeedPruner, compare, mean_over_seeds
from bln_search.ranking.comparison import RowVerdict

TRIALS, SEEDS = 20, 10
CASES = (
    ("listed", "equal"),
    ("listed", "one outlier"),
    ("listed", "log-normal"),
    ("listed", "pairs nearly alike"),
    ("tpe", "equal"),
    ("adversarial", "equal"),
)
"""How arms are chosen, and how much they vary between seeds.

Arms are listed before; chosen by TPE; or equal to the best one while that has been lucky, and else much worse.
"""

MEANS_OF_WORSE_ARMS = 1.0, 3.0, 10.0
"""Mean of the exponential distribution of how much worse an arm is, in standard deviations of a score."""

optuna.logging.set_verbosity(optuna.logging.WARNING)


def run_study(
    pruner: optuna.pruners.BasePruner,
    seeds: int,
    choose_arm: Callable[[optuna.Trial, np.random.Generator], tuple[float, float]],
    random: int,
    trials: int = TRIALS,
) -> tuple[optuna.Study, list[float]]:
    """Run a study; `choose_arm` returns the mean and the noise of the arm of a trial.

    Returns:
        The study, and the mean of the arm of each trial.
    """
    rng = np.random.default_rng(random)
    effects = rng.normal(size=seeds)
    means = []

    def objective(trial: optuna.Trial) -> float:
        mean, noise = choose_arm(trial, rng)
        means.append(mean)
        scores = mean + effects + noise * rng.normal(size=seeds)
        return mean_over_seeds(trial, lambda seed: scores[seed], range(seeds))

    study = optuna.create_study(pruner=pruner, sampler=optuna.samplers.TPESampler(seed=random))
    study.optimize(objective, n_trials=trials)
    return study, means


def list_arms(means: Iterable[float], noises: Iterable[float]) -> Callable[[Any, Any], tuple[float, float]]:
    """Arms with these means and noises, in this order, whatever their scores are."""
    arms = iter(list(zip(means, noises, strict=True)))

    def choose_next(trial: optuna.Trial, _: np.random.Generator) -> tuple[float, float]:
        trial.suggest_int("arm", trial.number, trial.number)
        return next(arms)

    return choose_next


def choose_by_tpe(trial: optuna.Trial, _: np.random.Generator) -> tuple[float, float]:
    """Half of the arms are equally good, the others are worse."""
    x = trial.suggest_float("x", 0, 1)
    return 5 * max(0.0, x - 0.5), 1.0


def choose_after_luck(trial: optuna.Trial, _: np.random.Generator) -> tuple[float, float]:
    """An arm as good as the best one while that has been lucky; otherwise one that is much worse."""
    trial.suggest_int("arm", trial.number, trial.number)
    values = [other.value for other in trial.study.trials if other.value is not None]
    is_lucky = trial.number == 0 or min(values) < np.mean(values) - np.std(values)
    return (0.0 if is_lucky else 10.0), 1.0


def choose_arms(sampler: str, kind: str, random: int) -> Callable[[Any, Any], tuple[float, float]]:
    """How arms are chosen of which none, or not all, are worse."""
    if sampler == "listed":
        return list_arms([0.0] * TRIALS, scales_of_rows(kind, TRIALS, np.random.default_rng(random)))
    return choose_by_tpe if sampler == "tpe" else choose_after_luck


def is_pruned_wrongly(study: optuna.Study, means: list[float]) -> bool:
    """Whether an arm was pruned whose mean is the best one."""
    return any(
        trial.state is optuna.trial.TrialState.PRUNED and mean == 0
        for trial, mean in zip(study.trials, means, strict=True)
    )


def is_declared_wrongly(study: optuna.Study, means: list[float]) -> bool:
    """Whether `compare` calls an arm worse whose mean is the best one."""
    best = {_name_arm(trial) for trial, mean in zip(study.trials, means, strict=True) if mean == 0}
    try:
        rows = compare(study, seeds=None).rows
    except DataError:  # fewer than two arms have all seeds
        return False
    return any(row.verdict is RowVerdict.WORSE and row.name in best for row in rows)


def _name_arm(trial: optuna.trial.FrozenTrial) -> str:
    ((name, value),) = trial.params.items()
    return f"{name}={value:.6g}"


def measure_errors(sampler: str, kind: str, studies: int) -> dict[str, Any]:
    """Share of studies that are wrong."""
    pruned = either = wilcoxon = 0
    for random in range(studies):
        study, means = run_study(SeedPruner(), SEEDS, choose_arms(sampler, kind, random), random)
        is_pruned = is_pruned_wrongly(study, means)
        pruned += is_pruned
        either += is_pruned or is_declared_wrongly(study, means)
        study, means = run_study(optuna.pruners.WilcoxonPruner(), SEEDS, choose_arms(sampler, kind, random), random)
        wilcoxon += is_pruned_wrongly(study, means)
    return {
        "sampler": sampler,
        "noise": kind,
        "pruned": pruned / studies,
        "pruned_or_declared": either / studies,
        "pruned_by_wilcoxon": wilcoxon / studies,
        "studies": studies,
    }


def measure_savings(worse: float, seeds: int, studies: int) -> dict[str, Any]:
    """Share of seeds that are not run, and of studies whose best arm is not pruned."""
    result: dict[str, Any] = {"mean_of_worse": worse, "seeds": seeds, "studies": studies}
    pruners = {"": SeedPruner, "_by_wilcoxon": optuna.pruners.WilcoxonPruner}
    for name, pruner in pruners.items():
        saved, kept = 0.0, 0
        for random in range(studies):
            means = worse * np.random.default_rng(random).exponential(size=TRIALS)
            study, _ = run_study(pruner(), seeds, list_arms(means, [1.0] * TRIALS), random)
            saved += 1 - sum(len(trial.intermediate_values) for trial in study.trials) / (TRIALS * seeds)
            kept += study.trials[int(means.argmin())].state is optuna.trial.TrialState.COMPLETE
        result |= {f"saved{name}": saved / studies, f"best_kept{name}": kept / studies}
    return result


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # WilcoxonPruner
    errors, savings = [], []
    for case in CASES[:: 3 if options.quick else 1]:
        errors.append(measure_errors(*case, 20 if options.quick else 200))
        print(errors[-1], flush=True)
    for seeds in (10,) if options.quick else (5, 10, 20):
        for worse in MEANS_OF_WORSE_ARMS:
            savings.append(measure_savings(worse, seeds, 3 if options.quick else 20))
            print(savings[-1], flush=True)
    finish(
        "optuna_seeds",
        {
            "trials": TRIALS,
            "seeds_of_errors": SEEDS,
            "largest_error": max(case["pruned_or_declared"] for case in errors),
            "errors": errors,
            "savings": savings,
        },
        save=options.save,
    )


if __name__ == "__main__":
    main()
