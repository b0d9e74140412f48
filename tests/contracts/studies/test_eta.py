"""Throughput and remaining time of running studies, over every database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import update

from bln_search.storage.engine import read_session, write_session
from bln_search.storage.pagination import Page
from bln_search.storage.studies.eta import TrialThroughput, measure_throughput
from bln_search.storage.tables import AttemptRow
from tests.support.service_world import finish_trial, study

AT = datetime(2026, 1, 31, 23, 59, 30, 250_000, tzinfo=UTC)


def test_seconds_are_the_mean_of_finished_attempts(ledger):
    study_id = ledger.queue.submit(study(seeds=range(4)), "ada").study_id
    ledger.studies.start(study_id, lambda _: True, "host/1/0")
    first, second, third, _ = ledger.trials.list_open(study_id)
    with read_session(ledger.database.engine) as session:
        assert measure_throughput(session, [study_id]) == {}
    for trial in (first, second):
        finish_trial(ledger, trial)
    token = ledger.attempts.claim_trial(third.id, "host/1/0")
    with write_session(ledger.database.engine) as session:
        for trial, seconds in ((first, 50), (second, 70)):  # over the end of a month
            times = {"started_at": AT, "ended_at": AT + timedelta(seconds=seconds)}
            session.execute(update(AttemptRow).where(AttemptRow.trial_id == trial.id).values(times))
        session.execute(update(AttemptRow).where(AttemptRow.id == token).values(started_at=AT))
    with read_session(ledger.database.engine) as session:
        assert measure_throughput(session, []) == {}
        assert measure_throughput(session, [study_id]) == {study_id: TrialThroughput(60.0, (AT,))}
    (line,) = ledger.listing.list_studies(Page(5, "created"))
    assert line.throughput == TrialThroughput(60.0, (AT,))


def test_remaining_time_is_shared_by_running_trials():
    pace = TrialThroughput(60.0, (AT, AT - timedelta(seconds=90)))
    assert pace.remaining_seconds(0, AT) == 30  # one has a minute to go, the other is late
    assert pace.remaining_seconds(4, AT) == (4 * 60 + 60) / 2
    assert TrialThroughput(60.0).remaining_seconds(4, AT) == 240
