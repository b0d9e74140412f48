from __future__ import annotations

import pytest

from bln_search.core.errors import MissingPackageError, TrackerError, UnknownStudyError
from bln_search.core.records import EpochRecord
from bln_search.core.states import TrialState
from bln_search.integrations.trackers import tracker as trackers
from bln_search.integrations.trackers.study_records import make_tracked_study, read_tracked_summary, read_tracked_trials
from bln_search.integrations.trackers.synchronization import StudySynchronizer, SynchronizedRuns
from bln_search.integrations.trackers.target import parse_tracker_target
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.external_results import submit
from tests.support.service_world import start_study

EPOCH = EpochRecord(1, 0.5, 0.6, float("inf"), 0.8, 0.01)


class Recorder:
    """A tracker that keeps what it gets, and fails on request."""

    def __init__(self):
        self.opened, self.trials, self.fails_after = [], [], None

    def open_study(self, study):
        self.opened.append(study)

    def write_trial(self, trial):
        if self.fails_after is not None and len(self.trials) >= self.fails_after:
            raise TrackerError("down")
        self.trials.append(trial)
        return True


def test_after_the_first_synchronization_only_changed_trials_are_read(ledger):
    tracker = Recorder()
    study_id, trials = start_study(ledger, "study", "ada", seeds=range(3))
    synchronizer = StudySynchronizer(ledger, study_id, tracker)
    assert synchronizer.synchronize_trials() == SynchronizedRuns(0, 0)
    token = ledger.attempts.claim_trial(trials[1].id, "host/1/0")
    assert synchronizer.synchronize_trials() == SynchronizedRuns(1, 1)
    assert synchronizer.synchronize_trials() == SynchronizedRuns(0, 0)
    ledger.attempts.record_epochs(token, [EPOCH])
    assert synchronizer.synchronize_trials() == SynchronizedRuns(1, 1)
    assert [trial.key for trial in tracker.trials] == [trials[1].key] * 2
    assert [len(trial.epochs) for trial in tracker.trials] == [0, 1]
    assert len(tracker.opened) == 1


def test_after_an_error_everything_is_compared_again(ledger, study_id):
    tracker = Recorder()
    tracker.fails_after = 4
    synchronizer = StudySynchronizer(ledger, study_id, tracker)
    with pytest.raises(TrackerError):
        synchronizer.synchronize_trials()
    tracker.fails_after = None
    assert synchronizer.synchronize_trials() == SynchronizedRuns(10, 10)
    assert len(tracker.opened) == 2


def test_a_synchronization_that_is_stopped_is_not_complete(ledger, study_id):
    tracker = Recorder()
    synchronizer = StudySynchronizer(ledger, study_id, tracker)
    assert synchronizer.synchronize_trials(should_stop=lambda: len(tracker.trials) >= 3) == SynchronizedRuns(3, 3)
    assert synchronizer.synchronize_trials() == SynchronizedRuns(10, 10)


def test_a_deleted_study_is_an_error(ledger, study_id):
    synchronizer = StudySynchronizer(ledger, study_id, Recorder())
    synchronizer.synchronize_trials()
    ledger.studies.delete_and_list_unneeded_files(study_id)
    with pytest.raises(UnknownStudyError):
        synchronizer.synchronize_trials()


def test_an_epoch_of_two_attempts_counts_once_as_first_recorded(ledger):
    study_id, (trial, *_) = start_study(ledger, "study", "ada", seeds=range(2))
    for _ in range(2):
        token = ledger.attempts.claim_trial(trial.id, "host/1/0")
        ledger.attempts.record_epochs(token, [EPOCH])
        ledger.attempts.release_attempts([token])
    (record,) = read_tracked_trials(ledger, ledger.studies.get(study_id), [trial.id])
    events = [event for event in ledger.events.list_events(study_id) if event.kind == "epoch"]
    assert len(events) == 2
    assert [(epoch.epoch, epoch.at) for epoch in record.epochs] == [(EPOCH.epoch, events[0].at)]
    assert {*record.epochs[0].metrics} == {"training_loss", "training_accuracy", "validation_accuracy", "seconds"}
    assert record.state is TrialState.WAITING
    assert record.parameters["training.learning_rate"] > 0


def test_equal_studies_of_two_accounts_have_different_keys(ledger):
    keys = {
        make_tracked_study(ledger.studies.get(start_study(ledger, "study", name)[0])).key for name in ("ada", "bob")
    }
    assert len(keys) == 2


def test_a_summary_has_every_row_and_its_text_the_first_ones(ledger, study_id, monkeypatch):
    monkeypatch.setattr("bln_search.integrations.trackers.study_records._MAX_TEXT_ROWS", 5)
    summary = read_tracked_summary(ledger, ledger.studies.get(study_id), None)
    assert len(summary.rows) == 32
    assert len(summary.csv.splitlines()) == 33
    assert "The first 5 of 32 rows." in summary.text
    assert summary.verdict == {}
    assert dict(zip(summary.columns, summary.rows[0], strict=True))["rank"] == 1


def test_a_study_without_results_has_an_empty_table(ledger):
    study_id, _ = start_study(ledger, "study", "ada", seeds=range(2))
    summary = read_tracked_summary(ledger, ledger.studies.get(study_id), None)
    assert summary.rows == []
    assert len(summary.csv.splitlines()) == 1


def test_results_of_own_networks_are_runs_without_epochs(ledger):
    tracker, study_id = Recorder(), submit(ledger).study_id
    synchronizer = StudySynchronizer(ledger, study_id, tracker)
    assert synchronizer.synchronize_trials() == SynchronizedRuns(2, 2)
    study = ledger.studies.get(study_id)
    assert [(trial.has_ended, trial.epochs, trial.started_at) for trial in tracker.trials] == [
        (True, [], study.created_at)
    ] * 2
    analysis = compute_and_store_analysis(ledger, study_id, None)
    summary = read_tracked_summary(ledger, study, analysis)
    assert len(summary.rows) == 16
    assert {"verdict", "recommended", "facts", "configuration", "batch_size"} <= {*summary.verdict}


@pytest.mark.parametrize("kind", ["mlflow", "tensorboard", "wandb-offline"])
def test_a_missing_package_names_its_extra(kind, monkeypatch):
    monkeypatch.setattr(trackers, "find_spec", lambda _name: None)
    extra = kind.partition("-")[0]
    with pytest.raises(MissingPackageError, match=rf"pip install 'bln-search\[{extra}\]'"):
        trackers.open_tracker(parse_tracker_target(f"{kind}:x"))
