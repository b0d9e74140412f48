"""Throughput and remaining time of running studies, over every database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from bln_search.core.records import EpochRecord
from bln_search.core.states import FailureClass
from bln_search.storage.engine import read_session, write_session
from bln_search.storage.pagination import PageRequest
from bln_search.storage.studies.progress import RunningTrial, StudyThroughput, measure_throughput_by_study
from bln_search.storage.tables import AttemptRow, EventRow
from bln_search.storage.trials.reports import ResumptionReport
from tests.support.service_world import finish_trial, start_study

AT = datetime(2026, 1, 31, 23, 59, 30, 250_000, tzinfo=UTC)


def test_seconds_are_the_mean_of_finished_attempts(ledger):
    study_id, (first, second, third, _) = start_study(ledger, "study", "ada", seeds=range(4))
    with read_session(ledger.database.engine) as session:
        assert measure_throughput_by_study(session, [study_id]) == {}
    for trial in (first, second):
        finish_trial(ledger, trial)
    token = ledger.attempts.claim_trial(third.id, "host/1/0")
    with write_session(ledger.database.engine) as session:
        for trial, seconds in ((first, 50), (second, 70)):  # over the end of a month
            times = {"started_at": AT, "ended_at": AT + timedelta(seconds=seconds)}
            session.execute(update(AttemptRow).where(AttemptRow.trial_id == trial.id).values(times))
        session.execute(update(AttemptRow).where(AttemptRow.id == token).values(started_at=AT))
    with read_session(ledger.database.engine) as session:
        assert measure_throughput_by_study(session, []) == {}
        assert measure_throughput_by_study(session, [study_id]) == {
            study_id: StudyThroughput(60.0, (RunningTrial(AT, 2),))
        }
    (line,) = ledger.study_lists.list_study_page_plus_one(PageRequest(5, "created"))
    assert line.throughput == StudyThroughput(60.0, (RunningTrial(AT, 2),))


def test_remaining_time_is_shared_by_running_trials():
    pace = StudyThroughput(60.0, (RunningTrial(AT, 2), RunningTrial(AT - timedelta(seconds=90), 2)))
    assert pace.estimate_remaining_seconds(0, AT) == 30  # one has a minute to go, the other is late
    assert pace.estimate_remaining_seconds(4, AT) == (4 * 60 + 60) / 2
    assert StudyThroughput(60.0).estimate_remaining_seconds(4, AT) == 240


def test_time_is_known_from_the_first_epoch_on(ledger):
    _, (first, second, _) = start_study(ledger, "study", "ada", seeds=range(3), epochs=20)
    lost = ledger.attempts.claim_trial(first.id, "host/1/0")
    ledger.attempts.record_epochs(lost, [epoch(number) for number in range(1, 16)])
    ledger.attempts.record_failure(lost, FailureClass.INFRASTRUCTURE, "why", again=True)
    tokens = [ledger.attempts.claim_trial(trial.id, "host/1/0") for trial in (first, second)]
    (item,) = ledger.study_lists.list_study_page_plus_one(PageRequest(5, "created"))
    assert item.finished_fractions == 15 / 20
    assert item.throughput.estimate_remaining_seconds(1, AT) is None
    ledger.attempts.record_epochs(tokens[1], [epoch(number) for number in range(1, 8)])
    with write_session(ledger.database.engine) as session:
        session.execute(update(AttemptRow).where(AttemptRow.id.in_(tokens)).values(started_at=AT))
        session.execute(update(EventRow).where(EventRow.kind == "epoch").values(at=AT + timedelta(seconds=70)))
    (item,) = ledger.study_lists.list_study_page_plus_one(PageRequest(5, "created"))
    assert item.throughput.running == (RunningTrial(AT, 20), RunningTrial(AT, 20, 7, AT + timedelta(seconds=70)))
    assert item.finished_fractions == pytest.approx(15 / 20 + 7 / 20)
    now = AT + timedelta(seconds=80)  # a trial takes 200 seconds; two of three have 120 to go
    assert item.throughput.estimate_remaining_seconds(1, now) == (2 * 120 + 200) / 2


def test_epochs_before_a_resumption_count_as_finished_and_not_for_the_speed(ledger):
    _, (trial,) = start_study(ledger, "study", "ada", seeds=range(1), epochs=20)
    lost = ledger.attempts.claim_trial(trial.id, "host/1/0")
    ledger.attempts.record_epochs(lost, [epoch(number) for number in range(1, 11)])
    ledger.attempts.record_failure(lost, FailureClass.INFRASTRUCTURE, "why", again=True)
    token = ledger.attempts.claim_trial(trial.id, "host/1/0")
    ledger.attempts.record_attempt_reports([ResumptionReport(token, [epoch(number) for number in range(1, 11)])])
    (item,) = ledger.study_lists.list_study_page_plus_one(PageRequest(5, "created"))
    assert item.finished_fractions == 10 / 20
    assert item.throughput.estimate_remaining_seconds(0, AT) is None
    ledger.attempts.record_epochs(token, [epoch(11), epoch(12)])
    with write_session(ledger.database.engine) as session:
        session.execute(update(AttemptRow).where(AttemptRow.id == token).values(started_at=AT))
        session.execute(update(EventRow).where(EventRow.kind == "epoch").values(at=AT + timedelta(seconds=20)))
    (item,) = ledger.study_lists.list_study_page_plus_one(PageRequest(5, "created"))
    now = AT + timedelta(seconds=20)  # two epochs took 20 seconds, eight are to go
    assert item.throughput.estimate_remaining_seconds(0, now) == 80


def epoch(number):
    return EpochRecord(number, 0.5, 0.6, 0.7, 0.8, 10.0)
