"""A study that samples its points: suggested, trained, pruned, reported, interrupted and resumed."""

from __future__ import annotations

import json
from collections import Counter

import optuna
import pytest

from bln_search.core.states import StudyState, TrialState
from bln_search.execution.executors.local import LocalExecutor
from bln_search.execution.messages import EpochDone, TrainingPruned
from bln_search.search.optuna.records import OptunaRecords
from bln_search.specs import parse_study
from bln_search.worker import run_study
from tests.support.watchers import RecordingWatcher

STUDY = """
name: searched
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp, widths: [8]}
arms: [{method: bn}]
training: {epochs: 6, optimizer: sgd}
seeds: [0]
space: {training.learning_rate: {kind: float, low: 1e-4, high: 1, log: true}}
search: {sampler: tpe, trials: 8, startup: 2, SEARCH}
"""


def study(search="pruner: none", **replacements):
    text = STUDY.replace("SEARCH", search)
    for original, replacement in replacements.items():
        text = text.replace(original, replacement)
    return parse_study(text)


def optuna_trials(ledger):
    storage = OptunaRecords(*ledger.prepare_optuna_url_and_schema())
    (name,) = optuna.study.get_all_study_names(storage)
    trials = optuna.load_study(study_name=name, storage=storage).trials
    storage.remove_session()
    storage.engine.dispose()
    return trials


@pytest.mark.slow
def test_every_point_is_in_ledger_and_optuna(ledger, environment):
    study_id = ledger.studies.store_study_once(study())
    watcher = RecordingWatcher()
    assert run_study(ledger, study_id, LocalExecutor(environment, 2), watcher) is StudyState.COMPLETE
    assert watcher.trials == 8
    trials = optuna_trials(ledger)
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * 8
    records = {sampled.key: sampled for (sampled,) in ledger.trials.list_sampled_trials_grouped_by_point(study_id)}
    assert {trial.user_attrs["cell"]: trial.value for trial in trials} == {
        key: sampled.trial.checkpoint.validation_loss for key, sampled in records.items()
    }
    second_watcher = RecordingWatcher()
    assert run_study(ledger, study_id, LocalExecutor(environment, 2), second_watcher) is StudyState.COMPLETE
    assert second_watcher.messages == []


@pytest.mark.slow
def test_pruned_trials_are_results_in_ledger_and_optuna(ledger, environment):
    study_id = ledger.studies.store_study_once(study("pruner: asha"))
    watcher = RecordingWatcher()
    assert run_study(ledger, study_id, LocalExecutor(environment, 1), watcher) is StudyState.COMPLETE
    states = Counter(trial.state for trial in ledger.trials.list_trials(study_id))
    assert states[TrialState.PRUNED] > 0
    assert states[TrialState.PRUNED] + states[TrialState.FINISHED] + states[TrialState.DIVERGED] == 8
    state_counts = Counter(trial.state.name for trial in optuna_trials(ledger))
    assert state_counts["PRUNED"] == states[TrialState.PRUNED]
    assert state_counts["RUNNING"] == 0
    stopped = next(message for _, message in watcher.messages if isinstance(message, TrainingPruned))
    assert stopped.epoch < 6


@pytest.mark.slow
def test_interrupted_search_resumes_to_all_its_points(ledger, environment):
    study_id = ledger.studies.store_study_once(study())
    measured_values = []

    class Stop(Exception):
        pass

    def fail(message):
        measured_values.append(message)
        if sum(isinstance(message, EpochDone) for message in measured_values) == 20:
            raise Stop

    with pytest.raises(Stop):
        run_study(ledger, study_id, LocalExecutor(environment, 2), RecordingWatcher(fail))
    assert ledger.studies.get_by_name_or_id("searched").state is StudyState.INTERRUPTED
    assert run_study(ledger, study_id, LocalExecutor(environment, 2), RecordingWatcher()) is StudyState.COMPLETE
    assert ledger.studies.get_by_name_or_id("searched").trials == {TrialState.FINISHED: 8}
    assert Counter(trial.state.name for trial in optuna_trials(ledger)) == {"COMPLETE": 8}


@pytest.mark.slow
def test_finite_space_is_sampled_once_per_point(ledger, environment):
    three = "{kind: choice, values: [0.1, 0.01, 0.001]}"
    spec = study(**{"{kind: float, low: 1e-4, high: 1, log: true}": three})
    study_id = ledger.studies.store_study_once(spec)
    assert run_study(ledger, study_id, LocalExecutor(environment, 1), RecordingWatcher()) is StudyState.COMPLETE
    assert ledger.studies.get_by_name_or_id("searched").trials == {TrialState.FINISHED: 3}


@pytest.mark.slow
def test_measured_objectives_reach_optuna(ledger, environment):
    widths = "model.widths: {kind: choice, values: [[4], [16], [64]]}, training"
    search = "objectives: [best_loss, inference_seconds, parameters]"
    study_id = ledger.studies.store_study_once(
        study(search, **{"{training": "{" + widths, "trials: 8": "trials: 3", "tpe": "nsga2"})
    )
    assert run_study(ledger, study_id, LocalExecutor(environment, 1), RecordingWatcher()) is StudyState.COMPLETE
    for trial in optuna_trials(ledger):
        loss, seconds, parameters = trial.values
        assert 0 < loss < 10
        assert 0 < seconds < 10
        (width,) = json.loads(trial.params["model.widths"])
        assert parameters == 64 * width + width + 2 * width + 10 * width + 10
