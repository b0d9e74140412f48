"""Search, then train the best point of each arm with all seeds: once, for every sampler, also after kills."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from bln_search.core.states import FailureClass, StudyState, TrialState
from bln_search.execution.executors.local import LocalExecutor
from bln_search.execution.messages import TaskFailed
from bln_search.specs import parse_study
from bln_search.specs.sections.search import Objective, Sampler
from bln_search.storage.pagination import PageRequest
from bln_search.worker import run_study
from tests.support.tiers import thinned
from tests.support.watchers import RecordingWatcher
from tests.worker.objective_executor import Killed, ObjectiveExecutor

STUDY = """
name: best
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp, widths: [8]}
arms: [{method: bn}, {method: bln}]
training: {epochs: 6, optimizer: sgd}
seeds: [0, 1, 2]
space: {SPACE}
search: {sampler: SAMPLER, trials: 5, startup: 2, then_train: true, SEARCH}
"""
RATE = "training.learning_rate"
FLOAT = f"{RATE}: {{kind: float, low: 1e-4, high: 1, log: true}}"
TWO_FLOATS = f"{FLOAT}, arm.momentum: {{kind: float, low: 0.5, high: 0.9}}"
FINITE = f"{RATE}: {{kind: choice, values: [0.001, 0.01, 0.1, 0.5, 1.0]}}"
SPACES = {Sampler.GRID: FINITE, Sampler.CMAES: TWO_FLOATS}


def study(sampler="brent", search="epochs: 2", space=None):
    space = space or SPACES.get(Sampler(sampler), FLOAT)
    return parse_study(STUDY.replace("SPACE", space).replace("SAMPLER", sampler).replace("SEARCH", search))


def loss(trial):
    return abs(math.log10(trial.training.learning_rate) + (1.5 if trial.arm.label == "bn" else 2.5)) + trial.seed / 100


def split_trials(ledger, study_id):
    trials = ledger.trials.list_trials(study_id)
    return [trial for trial in trials if trial.is_search_phase_trial], [
        trial for trial in trials if not trial.is_search_phase_trial
    ]


def check_complete(ledger, study_id, points=5):
    """Every arm has its search trials with the first seed, and its best point with all seeds."""
    searched, final = split_trials(ledger, study_id)
    assert Counter(trial.arm for trial in searched) == {"bn": points, "bln": points}
    assert {trial.seed for trial in searched} == {0}
    assert {trial.spec.epochs for trial in searched} == {2}
    assert sorted((trial.arm, trial.seed) for trial in final) == [
        (arm, seed) for arm in ("bln", "bn") for seed in (0, 1, 2)
    ]
    assert {trial.spec.epochs for trial in final} == {6}
    for arm in ("bn", "bln"):
        best = min((trial for trial in searched if trial.arm == arm), key=lambda trial: loss(trial.spec))
        assert len({trial.point_json for trial in final if trial.arm == arm}) == 1
        assert final[0].parameters.keys() == best.parameters.keys() - {"search.horizon"}
        assert {trial.spec.training for trial in final if trial.arm == arm} == {best.spec.training}
        assert best.spec.arm in {trial.spec.arm for trial in final}


@pytest.mark.parametrize("sampler", thinned(Sampler, 4))
def test_every_sampler_is_followed_by_the_training_of_its_best_points(ledger, sampler):
    study_id = ledger.studies.store_study_once(study(sampler))
    assert ledger.studies.get(study_id).planned == 16
    executor = ObjectiveExecutor(loss)
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    assert executor.planned == 16
    check_complete(ledger, study_id)
    assert ledger.studies.get(study_id).num_trials_with_result == 16
    assert all(
        trial.parameters.keys() <= {RATE, "arm.momentum"} for trial in ledger.trials.list_finished_full_trials(study_id)
    )
    assert len(ledger.trials.list_finished_full_trials(study_id)) == 6


@pytest.mark.parametrize("sampler", thinned(["brent", "tpe", "grid"], 3))
def test_kill_after_every_message_loses_nothing_and_trains_nothing_twice(ledger, sampler):
    study_id = ledger.studies.store_study_once(study(sampler))
    state, ended = None, Counter()
    for seed in range(200):
        executor = ObjectiveExecutor(loss, parallel=1 + seed % 3, seed=seed, kill_after=1 + seed % 2)
        try:
            state = run_study(ledger, study_id, executor, RecordingWatcher())
        except Killed:
            continue
        break
    assert state is StudyState.COMPLETE
    check_complete(ledger, study_id)
    for event in ledger.events.list_events(study_id, 0, 5000):
        ended[event.trial_id] += event.kind == "trial_finished"
    assert {count for trial_id, count in ended.items() if trial_id is not None} == {1}
    second = ObjectiveExecutor(loss)
    assert run_study(ledger, study_id, second, RecordingWatcher()) is StudyState.COMPLETE
    assert second.tasks == []


def test_best_point_of_an_arm_is_trained_while_another_arm_searches(ledger):
    study_id = ledger.studies.store_study_once(study())
    executor = ObjectiveExecutor(loss, parallel=2)
    executor.choose = lambda live: min(range(len(live)), key=lambda number: live[number].trial.arm.label != "bn")
    run_study(ledger, study_id, executor, RecordingWatcher())
    order = [(task.trial.arm.label, task.trial.is_search_phase_trial) for task in executor.tasks]
    assert order == [("bn", True), ("bln", True), *[("bn", True)] * 4, *[("bn", False)] * 3, *order[9:]]
    check_complete(ledger, study_id)


def test_only_search_trials_are_pruned_and_measured(ledger):
    study_id = ledger.studies.store_study_once(study("tpe", "epochs: 3, pruner: median"))
    executor = ObjectiveExecutor(loss)
    run_study(ledger, study_id, executor, RecordingWatcher())
    assert {task.trial.is_search_phase_trial: task.prunable for task in executor.tasks} == {True: True, False: False}
    assert {task.measured for task in executor.tasks if task.trial.is_search_phase_trial} == {("loss",)}


def test_diverged_points_are_not_trained_and_an_arm_without_a_value_ends(ledger):
    study_id = ledger.studies.store_study_once(study())

    def diverging(trial):
        return math.nan if trial.arm.label == "bn" else loss(trial)

    assert run_study(ledger, study_id, ObjectiveExecutor(diverging), RecordingWatcher()) is StudyState.COMPLETE
    _, final = split_trials(ledger, study_id)
    assert {trial.arm for trial in final} == {"bln"}
    events = [event for event in ledger.events.list_events(study_id, 0, 5000) if event.kind == "search_ended"]
    assert [event.data["arm"] for event in events] == ["bn"]
    assert "no best point" in events[0].data["reason"]
    ledger.studies.record_arm_search_with_too_few_points(
        study_id, "bn", events[0].data["reason"]
    )  # as a further run does
    assert [event for event in ledger.events.list_events(study_id, 0, 5000) if event.kind == "search_ended"] == events


@pytest.mark.parametrize(("sampler", "trained"), [("random", 2), ("brent", 1)])
def test_failed_search_trial_fails_the_study_until_it_has_a_result(ledger, sampler, trained):
    """Brent's method needs every result in order; other samplers go on, and the failed point is not the best."""
    study_id = ledger.studies.store_study_once(study(sampler))
    broken = []

    def failing(trial):
        if trial.arm.label == "bn" and trial.is_search_phase_trial and not broken:
            broken.append(trial.key)
        return TaskFailed(FailureClass.USER_ERROR, "broken") if trial.key in broken else loss(trial)

    assert run_study(ledger, study_id, ObjectiveExecutor(failing), RecordingWatcher()) is StudyState.FAILED
    _, final = split_trials(ledger, study_id)
    assert len({trial.arm for trial in final}) == trained
    assert run_study(ledger, study_id, ObjectiveExecutor(loss), RecordingWatcher()) is StudyState.COMPLETE
    assert {trial.state for trial in ledger.trials.list_trials(study_id)} == {TrialState.FINISHED}
    assert len(split_trials(ledger, study_id)[1]) == 6


def test_search_compares_points_by_the_mean_over_its_own_seeds(ledger):
    study_id = ledger.studies.store_study_once(study("grid", "trial_seeds: [7, 8]", FINITE))

    def by_seed(trial):
        """The mean is lowest at 0.01, seed 7 alone prefers 0.1."""
        losses = {(7, 0.1): 0.1, (8, 0.1): 2.0, (7, 0.01): 0.5, (8, 0.01): 0.4}
        return losses.get((trial.seed, trial.training.learning_rate), 1.5)

    assert run_study(ledger, study_id, ObjectiveExecutor(by_seed), RecordingWatcher()) is StudyState.COMPLETE
    searched, final = split_trials(ledger, study_id)
    assert len(searched) == 20
    assert {trial.spec.epochs for trial in searched} == {6}
    assert {trial.parameters[RATE] for trial in final} == {0.01}
    assert {trial.seed for trial in final} == {0, 1, 2}


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["running_training_loss", "loss", "best_loss"])
def test_real_search_ranks_only_the_full_trainings(ledger, environment, objective):
    study_id = ledger.studies.store_study_once(study("brent", f"epochs: 2, objectives: [{objective}]"))
    assert run_study(ledger, study_id, LocalExecutor(environment, 2), RecordingWatcher()) is StudyState.COMPLETE
    searched, final = split_trials(ledger, study_id)
    assert Counter(trial.state for trial in searched + final) == {TrialState.FINISHED: 16}
    spec = ledger.studies.get(study_id).spec
    board = ledger.results.rank_rows_of_study(study_id, spec)
    assert {row.seeds for row in board.rows if row.rank is not None} == {3}
    assert {row.point for row in board.rows} == {trial.point_json for trial in final}
    values = {
        trials[0].key: trials[0].objective_value(Objective(objective))
        for trials in ledger.trials.list_sampled_trials_grouped_by_point(study_id)
        if trials[0].trial.is_search_phase_trial
    }
    assert len(values) == 10
    for arm in ("bn", "bln"):
        best = min((trial for trial in searched if trial.arm == arm), key=lambda trial: values[trial.key])
        assert {trial.spec.training for trial in final if trial.arm == arm} == {best.spec.training}
    curves = ledger.trial_lists.list_learning_curve_page_plus_one(study_id, PageRequest(100, "position"), {})
    assert {len(curve.epochs) for curve in curves if curve.trial.is_search_phase_trial} == {2}
    assert {len(curve.epochs) for curve in curves if not curve.trial.is_search_phase_trial} == {6}
