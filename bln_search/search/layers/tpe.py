"""Optuna's tree-structured Parzen estimator over the options of each choice."""

from __future__ import annotations

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution

from bln_search.search.layers.objective import BudgetedObjective

_BATCH = 8
"""Configurations that are evaluated together; until then the sampler counts them as bad ones (constant liar)."""

_INFINITE_LOSS = 1e300
"""Stands for an infinite loss, which Optuna rejects."""


def run_tpe_search(objective: BudgetedObjective, seed: int) -> None:
    """Suggest configurations until the budget is spent; the uniform configurations are the first observations."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=0, constant_liar=True)
    study = optuna.create_study(sampler=sampler)
    distributions = {
        str(index): CategoricalDistribution(tuple(range(radix)))
        for index, radix in enumerate(objective.space.num_options_per_choice)
    }
    for uniform in objective.space.choice_digits_by_uniform_configuration().values():
        loss = float(objective.mean_losses([uniform])[0])
        parameters = {str(index): digit for index, digit in enumerate(uniform)}
        value = loss if np.isfinite(loss) else _INFINITE_LOSS
        study.add_trial(optuna.trial.create_trial(params=parameters, distributions=dict(distributions), value=value))
    spent, unchanged = objective.spent, 0
    while unchanged < 50 * _BATCH:
        trials = [study.ask(dict(distributions)) for _ in range(_BATCH)]
        digits = np.array(
            [[trial.params[str(index)] for index in range(len(distributions))] for trial in trials], np.uint8
        )
        for trial, loss in zip(trials, objective.mean_losses(digits), strict=True):
            study.tell(trial, float(loss) if np.isfinite(loss) else _INFINITE_LOSS)
        unchanged = unchanged + _BATCH if objective.spent == spent else 0
        spent = objective.spent
