"""Contract of studies, trials and attempts, over every database."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import numpy as np
import optuna
import pytest
from sqlalchemy import func, select

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.errors import StaleAttemptError, StudyBusyError, UnknownStudyError
from bln_search.core.records import CheckpointRecord, EpochRecord, Evaluation, EvaluationKey, Outcomes
from bln_search.core.states import AttemptState, EvaluationState, FailureClass, StudyState, TrialState
from bln_search.specs import parse_study, planned_rows
from bln_search.specs.search import Objective
from bln_search.specs.trial import resolve
from bln_search.storage.engine import read_session
from bln_search.storage.leases import LEASE
from bln_search.storage.tables import AttemptRow, EvaluationRow, StudyRow

STUDY = parse_study("""
name: study
data: {name: digits}
model: {name: mlp}
arms: [{method: bln}, {method: bn}]
seeds: [0, 4294967295]
""")
CHECKPOINT = CheckpointRecord("file", "0" * 64, 3, "FFFF", 0.5, {"torch": "2"})


def evaluations(n=7):
    rng = np.random.default_rng(0)
    records = []
    for code in ("FFFF", "TTFF"):
        for split in (Split.VALIDATION, Split.TEST):
            estimate = None if code == "FFFF" else PopulationEstimate.FROZEN
            key = EvaluationKey(InferenceConfiguration(code), estimate, 25, split)
            outcomes = Outcomes(rng.random(n).astype(np.float32), rng.random(n) < 0.5)
            records.append(Evaluation.from_outcomes(key, outcomes))
    key = EvaluationKey(InferenceConfiguration("FTFF"), PopulationEstimate.FROZEN, 25, Split.TEST)
    return (*records, Evaluation.undefined(key, "because"))


def no_worker_is_alive(_worker):
    return False


def finish(ledger, trial):
    token = ledger.attempts.claim_trial(trial.id, "host/1/0")
    ledger.attempts.record_checkpoint(token, CHECKPOINT)
    ledger.attempts.finish_trial(token, evaluations())
    return token


def test_study_is_stored_once_with_its_trials(ledger):
    study_id = ledger.studies.accept(STUDY)
    assert ledger.studies.accept(STUDY) == study_id
    summary = ledger.studies.find("study")
    assert summary.spec == STUDY
    assert summary.trials == {TrialState.WAITING: 4}
    assert [trial.spec.label for trial in ledger.trials.list_open(study_id)] == [
        "bln seed 0",
        "bn seed 0",
        "bln seed 4294967295",
        "bn seed 4294967295",
    ]


def test_changed_study_is_another_and_the_newest_is_found(ledger):
    first = ledger.studies.accept(STUDY)
    second = ledger.studies.accept(STUDY.model_copy(update={"seeds": (5,)}))
    assert second != first
    assert ledger.studies.find("study").id == second
    assert ledger.studies.find(str(first)).id == first
    assert [study.id for study in ledger.studies.list_studies()] == [second, first]


@pytest.mark.parametrize("name", ["none", "99", "0", "²", "9" * 30, ""])
def test_unknown_study_raises_an_error(ledger, name):
    with pytest.raises(UnknownStudyError, match="bln-search list"):
        ledger.studies.find(name)


def test_finished_trial_is_read_as_it_was_recorded(ledger):
    study_id = ledger.studies.accept(STUDY)
    ledger.studies.start(study_id, no_worker_is_alive)
    trial = ledger.trials.list_open(study_id)[0]
    token = ledger.attempts.claim_trial(trial.id, "host/1/0")
    ledger.attempts.record_epochs(token, [EpochRecord(1, 0.5, 0.6, 0.7, 0.8, 1.5)])
    ledger.attempts.record_checkpoint(token, CHECKPOINT)
    ledger.attempts.finish_trial(token, evaluations())
    records = ledger.results.list_evaluations(study_id)
    assert [call.evaluation for call in records] == list(evaluations())
    assert {(call.arm, call.seed) for call in records} == {("bln", 0)}
    outcomes = ledger.results.load_outcomes([call.id for call in records])
    back = outcomes[records[1].id]
    np.testing.assert_array_equal(back.losses, evaluations()[1].outcomes.losses)
    np.testing.assert_array_equal(back.correct, evaluations()[1].outcomes.correct)
    assert records[-1].id not in outcomes
    assert ledger.trials.list_trials(study_id)[0].checkpoint == CHECKPOINT
    events = ledger.events.list_events(study_id)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert [event.kind for event in events] == [
        "study_accepted",
        "study_running",
        "attempt_started",
        "epoch",
        "trained",
        "trial_finished",
    ]
    assert ledger.events.list_events(study_id, after=4)[0].kind == "trained"
    assert events[3].data["validation_loss"] == 0.7
    assert events[0].at.tzinfo is not None


def test_a_study_is_complete_when_every_trial_has_its_result(ledger):
    study_id = ledger.studies.accept(STUDY)
    ledger.studies.start(study_id, no_worker_is_alive)
    trials = ledger.trials.list_open(study_id)
    for trial in trials[:3]:
        finish(ledger, trial)
    assert ledger.studies.finish(study_id) is StudyState.INTERRUPTED
    ledger.studies.start(study_id, no_worker_is_alive)
    ledger.attempts.record_divergence(ledger.attempts.claim_trial(trials[3].id, "host/1/0"), "nan")
    assert ledger.studies.finish(study_id) is StudyState.COMPLETE
    assert ledger.trials.list_open(study_id) == []
    ledger.studies.start(study_id, no_worker_is_alive)
    assert ledger.studies.finish(study_id) is StudyState.COMPLETE


def test_diverged_trial_counts_for_all_its_rows(ledger):
    study_id = ledger.studies.accept(STUDY)
    ledger.studies.start(study_id, no_worker_is_alive)
    trial = ledger.trials.list_open(study_id)[0]
    ledger.attempts.record_divergence(ledger.attempts.claim_trial(trial.id, "host/1/0"), "the loss is not finite")
    records = ledger.results.list_evaluations(study_id)
    assert len(records) == 2 * len(planned_rows(trial.spec))
    assert {call.evaluation.state for call in records} == {EvaluationState.DIVERGED}
    assert "the loss is not finite" in records[0].evaluation.reason


def test_a_trial_is_claimed_once(ledger):
    study_id = ledger.studies.accept(STUDY)
    trial = ledger.trials.list_open(study_id)[0]
    tokens, rejections = [], []

    def claim():
        try:
            tokens.append(ledger.attempts.claim_trial(trial.id, "host/1/0"))
        except StudyBusyError:
            rejections.append(1)

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(tokens), len(rejections)) == (1, 7)


def test_late_report_is_rejected_and_writes_nothing(ledger):
    study_id = ledger.studies.accept(STUDY)
    trial = ledger.trials.list_open(study_id)[0]
    old_token = ledger.attempts.claim_trial(trial.id, "host/1/0")
    ledger.studies.start(study_id, no_worker_is_alive)
    token = ledger.attempts.claim_trial(trial.id, "host/2/0")
    for report in (
        lambda: ledger.attempts.record_checkpoint(old_token, CHECKPOINT),
        lambda: ledger.attempts.finish_trial(old_token, evaluations()),
        lambda: ledger.attempts.record_epochs(old_token, [EpochRecord(1, 0, 0, 0, 0, 0)]),
        lambda: ledger.attempts.record_divergence(old_token, "x"),
        lambda: ledger.attempts.record_failure(old_token, FailureClass.USER_ERROR, "x", again=False),
    ):
        with pytest.raises(StaleAttemptError, match="rejected"):
            report()
    assert ledger.results.list_evaluations(study_id) == []
    ledger.attempts.record_checkpoint(token, CHECKPOINT)
    ledger.attempts.finish_trial(token, evaluations())
    assert len(ledger.results.list_evaluations(study_id)) == len(evaluations())


def test_trained_trial_of_a_dead_worker_needs_evaluation_only(ledger):
    study_id = ledger.studies.accept(STUDY)
    trial = ledger.trials.list_open(study_id)[0]
    ledger.attempts.record_checkpoint(ledger.attempts.claim_trial(trial.id, "host/1/0"), CHECKPOINT)
    ledger.studies.start(study_id, no_worker_is_alive)
    open_trial = ledger.trials.list_open(study_id)[0]
    assert open_trial.id == trial.id
    assert open_trial.checkpoint == CHECKPOINT
    token = ledger.attempts.claim_trial(trial.id, "host/2/0")
    ledger.attempts.finish_trial(token, evaluations())
    assert ledger.trials.list_trials(study_id)[0].state is TrialState.FINISHED


def test_study_of_a_live_process_is_busy_until_the_lease_ends(ledger):
    study_id = ledger.studies.accept(STUDY)
    ledger.studies.start(study_id, no_worker_is_alive)
    trial = ledger.trials.list_open(study_id)[0]
    token = ledger.attempts.claim_trial(trial.id, "host/77/0")
    with pytest.raises(StudyBusyError, match=r"host/77/0.*wait for it, or stop it first"):
        ledger.studies.start(study_id, lambda worker: worker == "host/77/0")
    ledger.attempts.record_heartbeat([token])
    ledger.database.clock = lambda: datetime.now(UTC) + LEASE + timedelta(seconds=1)
    ledger.studies.start(study_id, lambda worker: True)
    assert ledger.studies.find("study").trials[TrialState.WAITING] == 4


def test_a_heartbeat_extends_the_lease(ledger):
    study_id = ledger.studies.accept(STUDY)
    token = ledger.attempts.claim_trial(ledger.trials.list_open(study_id)[0].id, "host/77/0")
    ledger.database.clock = lambda: datetime.now(UTC) + LEASE - timedelta(seconds=1)
    ledger.attempts.record_heartbeat([token])
    ledger.database.clock = lambda: datetime.now(UTC) + LEASE + timedelta(seconds=1)
    with pytest.raises(StudyBusyError):
        ledger.studies.start(study_id, lambda worker: True)


def test_failed_attempt_is_retried_or_ends_the_trial(ledger):
    study_id = ledger.studies.accept(STUDY)
    ledger.studies.start(study_id, no_worker_is_alive)
    trial = ledger.trials.list_open(study_id)[0]
    ledger.attempts.record_failure(
        ledger.attempts.claim_trial(trial.id, "w/1/0"), FailureClass.INFRASTRUCTURE, "died", again=True
    )
    ledger.attempts.record_failure(
        ledger.attempts.claim_trial(trial.id, "w/1/0"), FailureClass.USER_ERROR, "no data", again=False
    )
    failed = ledger.trials.list_trials(study_id)[0]
    assert (failed.state, failed.reason) == (TrialState.FAILED, "no data")
    assert len(ledger.trials.list_open(study_id)) == 3
    ledger.studies.start(study_id, no_worker_is_alive)
    assert len(ledger.trials.list_open(study_id)) == 4


def test_released_trials_wait_again(ledger):
    study_id = ledger.studies.accept(STUDY)
    ledger.studies.start(study_id, no_worker_is_alive)
    tokens = [ledger.attempts.claim_trial(trial.id, "w/1/0") for trial in ledger.trials.list_open(study_id)[:2]]
    ledger.attempts.release_trials(tokens)
    assert ledger.studies.find("study").trials == {TrialState.WAITING: 4}
    with read_session(ledger.database.engine) as session:
        assert set(session.scalars(select(AttemptRow.state))) == {AttemptState.LOST}


def test_evaluations_are_stored_atomically(ledger):
    study_id = ledger.studies.accept(STUDY)
    token = ledger.attempts.claim_trial(ledger.trials.list_open(study_id)[0].id, "w/1/0")
    ledger.attempts.record_checkpoint(token, CHECKPOINT)
    duplicated = (*evaluations(), evaluations()[0])
    with pytest.raises(Exception, match=r"(?i)unique"):
        ledger.attempts.finish_trial(token, duplicated)
    with read_session(ledger.database.engine) as session:
        assert session.scalar(select(func.count()).select_from(EvaluationRow)) == 0
    ledger.attempts.finish_trial(token, evaluations())


def test_deleting_a_study_keeps_files_of_others(ledger):
    study_id = ledger.studies.accept(STUDY)
    other_id = ledger.studies.accept(STUDY.model_copy(update={"title": "other"}))
    finish(ledger, ledger.trials.list_open(study_id)[0])
    finish(ledger, ledger.trials.list_open(other_id)[0])
    assert ledger.studies.delete(study_id) == []
    assert ledger.studies.delete(other_id) == ["file"]
    with read_session(ledger.database.engine) as session:
        for table in (StudyRow, EvaluationRow, AttemptRow):
            assert session.scalar(select(func.count()).select_from(table)) == 0


def test_study_of_a_running_command_is_not_deleted(ledger):
    study_id = ledger.studies.accept(STUDY)
    ledger.studies.start(study_id, no_worker_is_alive, "host/1/0")
    with pytest.raises(StudyBusyError, match="the study is running"):
        ledger.studies.delete(study_id)
    clock = ledger.database.clock
    ledger.database.clock = lambda: clock() + 2 * LEASE
    ledger.studies.delete(study_id)


SEARCHED = parse_study("""
name: searched
data: {name: digits}
model: {name: mlp}
arms: [{method: bn}]
space: {training.learning_rate: {kind: float, low: 0.001, high: 0.1}}
search: {trials: 2}
seeds: [0, 1]
""")


def point(rate):
    return [resolve(SEARCHED, SEARCHED.arms[0], {"training.learning_rate": rate}, seed) for seed in SEARCHED.seeds]


def test_sampled_point_is_stored_once_with_all_seeds(ledger):
    study_id = ledger.studies.accept(SEARCHED)
    assert ledger.trials.list_open(study_id) == []
    added = ledger.trials.add_point(study_id, point(0.01))
    assert [trial.spec.seed for trial in added] == [0, 1]
    assert ledger.trials.add_point(study_id, point(0.01)) is None
    assert len(ledger.trials.add_point(study_id, point(0.02))) == 2
    assert ledger.trials.list_open(study_id)[:2] == added
    assert [trial.point_label for trial in ledger.trials.list_trials(study_id)] == [
        "learning_rate=0.01",
        "learning_rate=0.01",
        "learning_rate=0.02",
        "learning_rate=0.02",
    ]


def test_pruned_trial_is_a_result_for_the_sampler(ledger):
    study_id = ledger.studies.accept(SEARCHED)
    ledger.studies.start(study_id, no_worker_is_alive)
    first, second = ledger.trials.add_point(study_id, point(0.01))
    token = ledger.attempts.claim_trial(first.id, "host/1/0")
    ledger.attempts.record_epochs(token, [EpochRecord(1, 0.9, 0.1, 0.8, 0.2, 1.0)])
    ledger.attempts.record_pruning(token, 1)
    with pytest.raises(StaleAttemptError):
        ledger.attempts.record_epochs(token, [EpochRecord(2, 0.9, 0.1, 0.7, 0.2, 1.0)])
    finish(ledger, second)
    ((pruned, finished),) = ledger.trials.list_points(study_id)
    assert (pruned.state, pruned.losses, pruned.measure(Objective.LOSS)) == (TrialState.PRUNED, {1: 0.8}, None)
    assert finished.measure(Objective.LOSS) == CHECKPOINT.validation_loss
    assert finished.measure(Objective.BEST_LOSS) < 1
    assert finished.measure(Objective.PARAMETERS) is None
    assert ledger.trials.list_points(study_id, finished.key) == [[pruned, finished]]
    assert ledger.trials.list_points(study_id, "another") == []
    assert ledger.studies.finish(study_id, exhausted=False) is StudyState.INTERRUPTED
    ledger.studies.start(study_id, no_worker_is_alive)
    assert ledger.studies.finish(study_id, exhausted=True) is StudyState.COMPLETE


def test_optuna_records_are_apart_from_the_ledger(ledger):
    """Its tables are called like ours or like Alembic's: in one namespace they would break each other."""
    storage = optuna.storages.RDBStorage(ledger.make_optuna_url())
    study = optuna.create_study(storage=storage, study_name="other")
    study.tell(study.ask(), 1.0)
    assert optuna.load_study(study_name="other", storage=storage).best_value == 1.0
    study_id = ledger.studies.accept(SEARCHED)
    assert ledger.studies.get(study_id).name == "searched"
    storage.remove_session()
    storage.engine.dispose()


def test_number_is_preferred_to_a_name(ledger):
    digit_named_id, other_id, third_id = (
        ledger.studies.accept(STUDY.model_copy(update={"name": name})) for name in ("2", "other", "77")
    )
    assert (digit_named_id, other_id, third_id) == (1, 2, 3)
    assert ledger.studies.find("2").id == other_id
    assert ledger.studies.find("77").id == third_id
