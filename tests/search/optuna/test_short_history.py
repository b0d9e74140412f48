"""A sampler with a short history suggests the same points until the history is longer."""

from __future__ import annotations

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState

from bln_search.search.optuna.short_history import ShortHistorySampler

DISTRIBUTIONS = {"x": FloatDistribution(0.0, 1.0), "y": FloatDistribution(0.001, 1.0, log=True)}
STARTUP = 5


def tpe():
    return optuna.samplers.TPESampler(seed=3, n_startup_trials=STARTUP, multivariate=True, constant_liar=True)


def suggestions(sampler, count):
    study = optuna.create_study(sampler=sampler)
    points = []
    for _ in range(count):
        trial = study.ask(DISTRIBUTIONS)
        points.append(trial.params)
        study.tell(trial, (trial.params["x"] - 0.3) ** 2 + trial.params["y"])
    return points


@pytest.fixture(autouse=True)
def quiet():
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield
    optuna.logging.set_verbosity(verbosity)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_suggestions_are_those_of_the_sampler_while_the_history_is_short():
    assert suggestions(ShortHistorySampler(tpe(), 20), 20) == suggestions(tpe(), 20)
    assert suggestions(ShortHistorySampler(tpe(), 12), 20) != suggestions(tpe(), 20)


def test_sampler_reads_the_newest_finished_trials_and_all_running_ones():
    read = []

    class Reading(optuna.samplers.RandomSampler):
        def sample_relative(self, study, trial, search_space):
            read.append([other.number for other in study.get_trials(deepcopy=False)])
            read.append([other.number for other in study._get_trials(deepcopy=False, states=[TrialState.COMPLETE])])
            assert study.directions == [optuna.study.StudyDirection.MINIMIZE]
            return super().sample_relative(study, trial, search_space)

    study = optuna.create_study(sampler=ShortHistorySampler(Reading(seed=0), 3))
    running = study.ask(DISTRIBUTIONS)
    for value in range(6):
        study.tell(study.ask(DISTRIBUTIONS), value)
    read.clear()
    newest = study.ask(DISTRIBUTIONS)
    assert read == [[running.number, 4, 5, 6, newest.number], [4, 5, 6]]
