"""Studies of Optuna with known scores."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import optuna
from optuna.trial import TrialState, create_trial

optuna.logging.set_verbosity(optuna.logging.WARNING)

STORAGES = ["memory", "sqlite", "journal"]


@contextmanager
def open_storage(name, folder):
    """A storage of this kind in a folder; None for one in memory."""
    if name == "memory":
        yield None
    elif name == "journal":
        yield optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(folder / "journal.log")))
    else:
        storage = optuna.storages.RDBStorage(f"sqlite:///{folder / 'study.db'}")
        yield storage
        storage.remove_session()
        storage.engine.dispose()


def score(rate, seed, random=0):
    noise = np.random.default_rng([random, seed, round(1000 * rate)]).normal()
    return abs(np.log10(rate) + 1) + 0.5 * seed + 0.05 * noise


def as_distribution(value):
    is_integer = isinstance(value, int)
    return (optuna.distributions.IntDistribution if is_integer else optuna.distributions.FloatDistribution)(0, 1000)


def add(study, value=None, state=TrialState.COMPLETE, user_attrs=None, steps=None, **params):
    """Add a trial with these parameters."""
    study.add_trial(
        create_trial(
            params=params,
            distributions={name: as_distribution(value) for name, value in params.items()},
            user_attrs=user_attrs,
            intermediate_values=steps,
            state=state,
            **({"values": value} if isinstance(value, list) else {"value": value}),
        )
    )


def states(study):
    return [trial.state.name for trial in study.trials]
