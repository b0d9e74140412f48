"""Reports of many attempts in one transaction: what is stored, what is refused, and how events are numbered."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import event, select

from bln_search.core.errors import StaleAttemptError, StudyBusyError
from bln_search.core.records import CheckpointRecord, EarlierEpochCheckpoint, EpochRecord
from bln_search.core.states import FailureClass, TrialState
from bln_search.specs import parse_study
from bln_search.storage.engine import read_session
from bln_search.storage.listing.trials import read_activity_by_trial
from bln_search.storage.tables import AttemptRow, StudyRow
from bln_search.storage.trials import running_attempts
from bln_search.storage.trials.reports import (
    CheckpointReport,
    DivergenceReport,
    EpochsReport,
    EvaluationReport,
    FailureReport,
    PruningReport,
    ResumptionReport,
)
from tests.contracts.trained_studies import CHECKPOINT, begin_study, evaluations

SEEDS = 12
STUDY = parse_study(f"""
name: many
data: {{name: digits}}
model: {{name: mlp}}
arms: [{{method: bln}}]
seeds: [{", ".join(str(seed) for seed in range(SEEDS))}]
""")
EPOCH = EpochRecord(1, 0.5, 0.6, 0.7, 0.8, 1.5)


@pytest.fixture
def study_id(ledger):
    return begin_study(ledger, STUDY)[0]


def claim(ledger, study_id, count):
    trials = [trial.id for trial in ledger.trials.list_claimable_trials(study_id)[:count]]
    return ledger.attempts.claim_trials(trials, "host/1/0")


def reports_of_whole_trial(token):
    with_snapshot = CheckpointRecord(
        f"file{token}", "0" * 64, 3, "FFFF", 0.5, {"torch": "2"}, (EarlierEpochCheckpoint(1, "early", "1" * 64),)
    )
    return [
        EpochsReport(token, [EPOCH]),
        CheckpointReport(token, with_snapshot),
        EvaluationReport(token, evaluations(5 + token)),
    ]


def stored_results(ledger, study_id):
    trials = [
        (trial.seed, trial.state, trial.reason, trial.checkpoint) for trial in ledger.trials.list_trials(study_id)
    ]
    results = {}
    for trial in ledger.trials.list_trials(study_id):
        for evaluation in ledger.results.list_trial_evaluations_with_outcomes(trial.id):
            outcomes = evaluation.outcomes
            values = None if outcomes is None else (outcomes.losses.tolist(), outcomes.correct.tolist())
            results[trial.seed, evaluation.key] = (evaluation, values)
    events = [(item.kind, item.trial_id, item.data) for item in ledger.events.list_events(study_id)]
    return trials, results, events


def test_reports_together_store_what_they_store_one_by_one(ledger, kind, create_ledger):
    stored = []
    for other, together in ((ledger, True), (create_ledger(kind), False)):
        study_id, _ = begin_study(other, STUDY)
        tokens = claim(other, study_id, 7)
        reports = [report for token in tokens[:3] for report in reports_of_whole_trial(token)]
        reports += [EpochsReport(tokens[3], [EPOCH]), DivergenceReport(tokens[3], "the loss is not finite")]
        reports += [PruningReport(tokens[4], 2), FailureReport(tokens[5], FailureClass.USER_ERROR, "x", again=False)]
        reports += [CheckpointReport(tokens[6], CHECKPOINT)]
        reports += [FailureReport(tokens[6], FailureClass.INFRASTRUCTURE, "died", again=True)]
        for batch in [reports] if together else [[report] for report in reports]:
            other.attempts.record_attempt_reports(batch)
        stored.append(stored_results(other, study_id))
        with read_session(other.database.engine) as session:
            assert session.get_one(StudyRow, study_id).results == 5
    assert stored[0] == stored[1]
    states = [state for _, state, _, _ in stored[0][0]]
    assert states[:7] == [TrialState.FINISHED] * 3 + [
        TrialState.DIVERGED,
        TrialState.PRUNED,
        TrialState.FAILED,
        TrialState.TRAINED,
    ]


def test_outcomes_belong_to_their_evaluations(ledger, study_id):
    tokens = claim(ledger, study_id, 4)
    ledger.attempts.record_attempt_reports([report for token in tokens for report in reports_of_whole_trial(token)])
    for token, trial in zip(tokens, ledger.trials.list_trials(study_id), strict=False):
        for stored, sent in zip(
            ledger.results.list_trial_evaluations_with_outcomes(trial.id), evaluations(5 + token), strict=True
        ):
            assert stored == sent
            if sent.outcomes is not None:
                np.testing.assert_array_equal(stored.outcomes.losses, sent.outcomes.losses)
                np.testing.assert_array_equal(stored.outcomes.correct, sent.outcomes.correct)


def test_one_stale_attempt_refuses_all_reports_of_the_transaction(ledger, study_id):
    tokens = claim(ledger, study_id, 2)
    ledger.attempts.release_attempts(tokens[1:])
    before = stored_results(ledger, study_id)
    with pytest.raises(StaleAttemptError, match=f"attempt {tokens[1]} is lost"):
        ledger.attempts.record_attempt_reports([*reports_of_whole_trial(tokens[0]), EpochsReport(tokens[1], [EPOCH])])
    assert stored_results(ledger, study_id) == before


def test_report_after_the_end_of_its_attempt_is_refused_in_the_same_transaction(ledger, study_id):
    (token,) = claim(ledger, study_id, 1)
    with pytest.raises(StaleAttemptError, match="ended"):
        ledger.attempts.record_attempt_reports([*reports_of_whole_trial(token), EpochsReport(token, [EPOCH])])
    assert ledger.results.list_clean_evaluations(study_id) == []


@contextmanager
def counted_statements(engine):
    statements = []

    def count(_connection, _cursor, statement, *_arguments):
        statements.append(statement)

    event.listen(engine, "before_cursor_execute", count)
    yield statements
    event.remove(engine, "before_cursor_execute", count)


def test_number_of_statements_is_independent_of_the_number_of_trials(ledger, study_id):
    counts = []
    for size in (1, SEEDS - 1):
        with counted_statements(ledger.database.engine) as statements:
            tokens = claim(ledger, study_id, size)
            ledger.attempts.record_attempt_reports(
                [report for token in tokens for report in reports_of_whole_trial(token)]
            )
        counts.append(len(statements))
    assert counts[0] == counts[1]


def test_trials_are_claimed_all_or_none(ledger, study_id):
    trials = [trial.id for trial in ledger.trials.list_claimable_trials(study_id)]
    ledger.attempts.claim_trial(trials[2], "host/1/0")
    with pytest.raises(StudyBusyError, match="seed 2 is running"):
        ledger.attempts.claim_trials(trials[:4], "host/2/0")
    assert [trial.id for trial in ledger.trials.list_claimable_trials(study_id)] == [*trials[:2], *trials[3:]]
    tokens = ledger.attempts.claim_trials(trials[:2], "host/2/0")
    with read_session(ledger.database.engine) as session:
        claimed = session.execute(select(AttemptRow.id, AttemptRow.trial_id, AttemptRow.number)).all()
    assert {tuple(row) for row in claimed if row.trial_id in trials[:2]} == {
        (tokens[0], trials[0], 1),
        (tokens[1], trials[1], 1),
    }


def test_release_reopens_every_trial_with_its_checkpoint(ledger, study_id, monkeypatch):
    monkeypatch.setattr(running_attempts, "CHUNK", 2)
    tokens = claim(ledger, study_id, 5)
    ledger.attempts.record_checkpoint(tokens[1], CHECKPOINT)
    ledger.attempts.release_attempts(tokens)
    states = [trial.state for trial in ledger.trials.list_trials(study_id)]
    assert states[:5] == [TrialState.WAITING, TrialState.TRAINED, *[TrialState.WAITING] * 3]
    kinds = [item.kind for item in ledger.events.list_events(study_id)]
    assert kinds.count("attempt_released") == 5


def test_reader_that_continues_after_its_last_event_misses_none(ledger, study_id):
    """Numbers become visible in their order, although several writers commit side by side."""
    tokens, rounds, read = claim(ledger, study_id, 6), 12, []
    finished = threading.Event()

    def write(own):
        for _ in range(rounds):
            ledger.attempts.record_attempt_reports([EpochsReport(token, [EPOCH, EPOCH]) for token in own])

    def follow():
        while True:
            is_last_look = finished.wait(0.001)
            read.extend(item.number for item in ledger.events.list_events(study_id, after=read[-1] if read else 0))
            if is_last_look:
                return

    writers = [threading.Thread(target=write, args=(tokens[start : start + 2],)) for start in (0, 2, 4)]
    reader = threading.Thread(target=follow)
    reader.start()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    finished.set()
    reader.join()
    assert len(read) >= 6 * rounds * 2
    assert read == list(range(1, read[-1] + 1))


def test_resumption_records_the_epochs_whose_reports_were_lost(ledger, study_id):
    """The first attempt ended before its second epoch was written."""
    records = [replace(EPOCH, epoch=number) for number in (1, 2, 3)]
    (first,) = claim(ledger, study_id, 1)
    ledger.attempts.record_attempt_reports([EpochsReport(first, records[:1])])
    ledger.attempts.record_failure(first, FailureClass.INFRASTRUCTURE, "killed", again=True)
    (second,) = claim(ledger, study_id, 1)
    ledger.attempts.record_attempt_reports([ResumptionReport(second, records[:2]), EpochsReport(second, records[2:])])
    events = [
        (event.kind, event.data["attempt"], event.data["epoch"])
        for event in ledger.events.list_events(study_id)
        if event.kind in ("epoch", "training_resumed")
    ]
    assert events == [("epoch", 1, 1), ("training_resumed", 2, 2), ("epoch", 2, 2), ("epoch", 2, 3)]


def test_resumed_attempt_is_shown_at_the_epoch_after_which_it_resumed(ledger, study_id):
    (first,) = claim(ledger, study_id, 1)
    records = [replace(EPOCH, epoch=number) for number in (1, 2)]
    ledger.attempts.record_attempt_reports([EpochsReport(first, records)])
    ledger.attempts.record_failure(first, FailureClass.INFRASTRUCTURE, "killed", again=True)
    trial = ledger.trials.list_claimable_trials(study_id)[0]
    (second,) = claim(ledger, study_id, 1)
    shown = []
    for reports in ([], [ResumptionReport(second, records)], [EpochsReport(second, [replace(EPOCH, epoch=3)])]):
        ledger.attempts.record_attempt_reports(reports)
        with read_session(ledger.database.engine) as session:
            shown.append(read_activity_by_trial(session, [trial.id])[trial.id].epoch)
    assert shown == [0, 2, 3]
