"""Optuna's tree-structured Parzen estimator over the options of each choice."""

from __future__ import annotations

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution

from bln_search.search.layers.objective import Judge

_TOGETHER = 8
"""Configurations asked for at once; those that wait count as bad ones meanwhile (constant liar)."""


def tpe(judge: Judge, seed: int) -> None:
    """Suggest configurations until the budget is spent; what the judge knows already comes first."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=0, constant_liar=True)
    study = optuna.create_study(sampler=sampler)
    space = {
        str(place): CategoricalDistribution(tuple(range(radix))) for place, radix in enumerate(judge.space.radices)
    }
    for uniform in judge.space.uniform().values():
        known = float(judge.losses([uniform])[0])
        parameters = {str(place): digit for place, digit in enumerate(uniform)}
        value = known if np.isfinite(known) else 1e300
        study.add_trial(optuna.trial.create_trial(params=parameters, distributions=dict(space), value=value))
    asked, unchanged = judge.spent, 0
    while unchanged < 50 * _TOGETHER:
        trials = [study.ask(dict(space)) for _ in range(_TOGETHER)]
        digits = np.array([[trial.params[str(place)] for place in range(len(space))] for trial in trials], np.uint8)
        for trial, loss in zip(trials, judge.losses(digits), strict=True):
            study.tell(trial, float(loss) if np.isfinite(loss) else 1e300)
        unchanged = unchanged + _TOGETHER if judge.spent == asked else 0
        asked = judge.spent
