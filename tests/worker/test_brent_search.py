"""A search by Brent's method: one point of an arm at a time, arms side by side, resumed with the same points."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import minimize_scalar

from bln_search.core.states import FailureClass, StudyState, TrialState
from bln_search.execution.executors.local import LocalExecutor
from bln_search.execution.messages import TaskFailed
from bln_search.search.brent_sampler import WORST
from bln_search.specs import parse_study
from bln_search.worker import run_study
from tests.support.tiers import thinned
from tests.support.watchers import RecordingWatcher
from tests.worker.objective_executor import Killed, ObjectiveExecutor

STUDY = """
name: brent
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp, widths: [8]}
arms: [{method: bn}, {method: bln}]
training: {epochs: 3, optimizer: sgd}
seeds: [0, 1]
space: {training.learning_rate: {kind: float, low: 1e-6, high: 1e-2, log: true}}
search: {sampler: brent, trials: 8, OBJECTIVES}
"""
MINIMA = {"bn": -4.7, "bln": -3.1}


def study(objectives="objectives: [loss]"):
    return parse_study(STUDY.replace("OBJECTIVES", objectives))


def mean_loss(rate, arm):
    """Not finite at high rates."""
    distance = math.log10(rate) - MINIMA[arm]
    return math.inf if rate > 10**-2.5 else abs(distance) ** 1.5 + 0.2 * math.cos(3 * distance)


def loss(trial):
    return mean_loss(trial.training.learning_rate, trial.arm.label) + trial.seed - 0.5


def scipy_points(arm, count=8):
    points = []

    def finite_loss(x):
        points.append(10.0 ** float(x))
        return min(WORST, mean_loss(points[-1], arm))

    minimize_scalar(finite_loss, bounds=(-6, -2), method="bounded", options={"maxiter": count})
    return points


def stored_points(ledger, study_id, arm):
    points = ledger.trials.list_sampled_trials_grouped_by_point(study_id)
    return [point[0].parameters["training.learning_rate"] for point in points if point[0].trial.arm == arm]


@pytest.mark.parametrize("objectives", ["objectives: [loss]", "objectives: [running_training_loss]"])
def test_points_of_each_arm_are_those_of_scipy(ledger, objectives):
    study_id = ledger.studies.store_study_once(study(objectives))
    executor = ObjectiveExecutor(loss, parallel=5)
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    assert executor.planned == 32
    assert executor.most_live == {"bn": 2, "bln": 2}
    for arm in MINIMA:
        assert stored_points(ledger, study_id, arm) == pytest.approx(scipy_points(arm), rel=1e-12)


@pytest.mark.parametrize("messages", thinned([0, 1, 2, 5, 8, 13, 21], 3))
def test_killed_search_resumes_with_the_same_points(ledger, messages):
    study_id = ledger.studies.store_study_once(study())
    for seed in range(200):
        executor = ObjectiveExecutor(loss, seed=seed, kill_after=messages + seed)
        try:
            state = run_study(ledger, study_id, executor, RecordingWatcher())
        except Killed:
            continue
        break
    assert state is StudyState.COMPLETE
    for arm in MINIMA:
        assert stored_points(ledger, study_id, arm) == pytest.approx(scipy_points(arm), rel=1e-12)
    ended = {TrialState.FINISHED, TrialState.DIVERGED}
    assert {trial.state for trial in ledger.trials.list_trials(study_id)} <= ended


def test_failed_trial_stops_its_arm_alone_until_the_study_is_resumed(ledger):
    study_id = ledger.studies.store_study_once(study())

    def failing(trial):
        is_broken = trial.arm.label == "bn" and trial.training.learning_rate == first
        return TaskFailed(FailureClass.USER_ERROR, "broken") if is_broken else loss(trial)

    first = scipy_points("bn")[0]
    assert run_study(ledger, study_id, ObjectiveExecutor(failing), RecordingWatcher()) is StudyState.FAILED
    assert len(stored_points(ledger, study_id, "bn")) == 1
    assert len(stored_points(ledger, study_id, "bln")) == 8
    assert run_study(ledger, study_id, ObjectiveExecutor(loss), RecordingWatcher()) is StudyState.COMPLETE
    assert stored_points(ledger, study_id, "bn") == pytest.approx(scipy_points("bn"), rel=1e-12)


def test_search_ends_at_the_tolerance_with_fewer_points(ledger):
    text = STUDY.replace("OBJECTIVES", "objectives: [loss]").replace("trials: 8", "trials: 100")
    study_id = ledger.studies.store_study_once(parse_study(text))
    assert run_study(ledger, study_id, ObjectiveExecutor(loss), RecordingWatcher()) is StudyState.COMPLETE
    points = stored_points(ledger, study_id, "bn")
    assert len(points) < 30
    assert math.log10(points[-1]) == pytest.approx(MINIMA["bn"], abs=1e-4)
    events = [event for event in ledger.events.list_events(study_id, 0, 2000) if event.kind == "search_ended"]
    assert {event.data["arm"] for event in events} == {"bn", "bln"}
    assert f"{len(points)} of 100 points: " in {event.data["arm"]: event.data["reason"] for event in events}["bn"]


@pytest.mark.slow
def test_rates_of_real_trainings_are_searched_by_their_running_training_loss(ledger, environment):
    study_id = ledger.studies.store_study_once(study("objectives: [running_training_loss]"))
    assert run_study(ledger, study_id, LocalExecutor(environment, 2), RecordingWatcher()) is StudyState.COMPLETE
    points = ledger.trials.list_sampled_trials_grouped_by_point(study_id)
    assert len(points) == 16
    for trials in points:
        for trial in trials:
            running = trial.trial.checkpoint.provenance["running_training_loss"]
            assert running == pytest.approx(trial.trial.checkpoint.validation_loss, rel=0.5)
