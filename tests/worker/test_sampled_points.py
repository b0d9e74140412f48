"""Edge cases of sampled studies: rejected points, other methods, last epochs, a second process."""

from __future__ import annotations

import pytest

from bln_search.core.errors import LedgerError, SpecError, StudyBusyError
from bln_search.core.process_identity import name_of_this_process
from bln_search.core.records import EpochRecord
from bln_search.core.states import StudyState
from bln_search.execution.messages import EpochDone, PruneDecision, TrainingDiverged, TrainingPruned
from bln_search.specs import parse_study
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker import run_study
from tests.support.watchers import RecordingWatcher
from tests.worker.scripted_executor import ScriptedExecutor

HEAD = """
name: edges
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp, widths: [8]}
arms: [{method: bn}]
training: {epochs: 3, optimizer: sgd}
seeds: [0]
"""
RATE = "training.learning_rate: {kind: float, low: 1e-4, high: 1, log: true}"


class Epochs:
    """Every trial reports its epochs with ever worse losses, and stops where it is told to."""

    def __init__(self):
        self.stopped = []

    def num_parallel_trials(self, _trials):
        return 1

    def run(self, next_task, report, pulse, trials=1):
        loss = 1.0
        while (task := next_task()) is not None:
            for epoch in range(1, task.trial.training.epochs + 1):
                loss += 1
                if report(task, EpochDone(EpochRecord(epoch, 1.0, 0.5, loss, 0.5, 1.0))) is PruneDecision.STOP:
                    self.stopped.append(epoch)
                    report(task, TrainingPruned(epoch))
                    break
            else:
                report(task, TrainingDiverged("scripted"))


def test_trial_is_never_pruned_after_its_last_epoch(ledger):
    spec = parse_study(f"{HEAD}space: {{{RATE}}}\nsearch: {{sampler: random, trials: 20, pruner: asha}}\n")
    executor = Epochs()
    run_study(ledger, ledger.studies.store_study_once(spec), executor, RecordingWatcher())
    assert executor.stopped
    assert max(executor.stopped) < 3


def test_rejection_of_every_point_raises_spec_error(ledger):
    dimension = (
        "training.momentum: {kind: choice, values: [0.5, 0.9]}, training.optimizer: {kind: choice, values: [adam]}"
    )
    with pytest.raises(SpecError, match="momentum belongs to the optimizer sgd"):
        parse_study(f"{HEAD}space: {{{dimension}, {RATE}}}\nsearch: {{trials: 5}}\n")
    sometimes = dimension.replace("[adam]", "[sgd, adam]")
    with pytest.raises(SpecError, match="momentum belongs"):
        parse_study(f"{HEAD}space: {{{sometimes}, {RATE}}}\nsearch: {{trials: 5}}\n")
    with pytest.raises(SpecError, match=r"cannot take epochs=5\.944: epochs must be a whole number, not 5\.94"):
        parse_study(f"{HEAD}space: {{training.epochs: {{kind: float, low: 1, high: 9}}}}\nsearch: {{trials: 5}}\n")


def test_point_that_changes_the_method_keeps_the_arm_label(ledger):
    section = "arm: {kind: choice, values: [{method: bn}, {method: mbn}]}"
    spec = parse_study(f"{HEAD}space: {{{section}, {RATE}}}\nsearch: {{sampler: random, trials: 6}}\n")
    study_id = ledger.studies.store_study_once(spec)
    executor = ScriptedExecutor()
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    assert {task.trial.arm.label for task in executor.tasks} == {"bn"}
    assert {task.trial.arm.method for task in executor.tasks} == {"bn", "mbn"}
    second_executor = ScriptedExecutor()
    assert run_study(ledger, study_id, second_executor, RecordingWatcher()) is StudyState.COMPLETE
    assert second_executor.tasks == []
    assert len(ledger.trials.list_sampled_trials_grouped_by_point(study_id)) == 6


SOME_REFUSED = (
    "training.optimizer: {kind: choice, values: [sgd, adam]}, training.momentum: {kind: choice, values: [null, 0.9]}"
)
"""Three combinations that can be tried, and one that cannot."""


class Stuck:
    """A sampler that says the same refused combination for ever, as one may that learns nothing of what is refused."""

    def infer_relative_search_space(self, *_):
        return {}

    def sample_independent(self, _study, _trial, name, _distribution):
        return {"training.optimizer": "adam", "training.momentum": 0.9, "training.learning_rate": 0.01}[name]

    def sample_relative(self, *_):
        return {}

    def before_trial(self, *_):
        pass

    def after_trial(self, *_):
        pass


@pytest.mark.slow
def test_repeated_rejections_do_not_end_the_study(ledger, monkeypatch):
    spec = parse_study(f"{HEAD}space: {{{SOME_REFUSED}, {RATE}}}\nsearch: {{sampler: gp, trials: 6, startup: 2}}\n")
    study_id = ledger.studies.store_study_once(spec)
    monkeypatch.setattr("bln_search.search.optuna.sampler.make_optuna_sampler", lambda *_: Stuck())
    executor = ScriptedExecutor()
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    assert len(executor.tasks) == 6
    assert not any(task.trial.training.optimizer == "adam" and task.trial.training.momentum for task in executor.tasks)


def test_arm_with_too_few_points_records_the_reason(ledger):
    spec = parse_study(f"{HEAD}space: {{{SOME_REFUSED}}}\nsearch: {{sampler: random, trials: 4}}\n")
    study_id = ledger.studies.store_study_once(spec)
    assert run_study(ledger, study_id, ScriptedExecutor(), RecordingWatcher()) is StudyState.COMPLETE
    (event,) = [event for event in ledger.events.list_events(study_id, 0, 200) if event.kind == "search_ended"]
    assert event.data["arm"] == "bn"
    assert event.data["reason"].startswith("3 of 4 points: ")
    assert "momentum belongs to the optimizer sgd" in event.data["reason"]


@pytest.mark.slow
def test_second_process_is_rejected_between_trials(ledger):
    spec = parse_study(f"{HEAD}space: {{{RATE}}}\nsearch: {{trials: 2}}\n")
    study_id = ledger.studies.store_study_once(spec)
    ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")
    with pytest.raises(StudyBusyError, match="host/1/0 runs this study"):
        ledger.studies.lease_and_start(study_id, lambda _: True, name_of_this_process())
    ledger.studies.lease_and_start(study_id, lambda _: False, name_of_this_process())
    assert ledger.studies.finish_run(study_id, exhausted=False, runner="host/1/0") is StudyState.RUNNING
    assert ledger.studies.finish_run(study_id, exhausted=False, runner=name_of_this_process()) is StudyState.INTERRUPTED
    ledger.studies.lease_and_start(study_id, lambda _: True, "host/2/0")


@pytest.mark.slow
def test_search_needs_a_database_in_a_file():
    ledger = open_and_upgrade_ledger("sqlite:///:memory:")
    spec = parse_study(f"{HEAD}space: {{{RATE}}}\nsearch: {{trials: 2}}\n")
    with pytest.raises(LedgerError, match="needs a database in a file"):
        run_study(ledger, ledger.studies.store_study_once(spec), ScriptedExecutor(), RecordingWatcher())
    ledger.close()
