"""What the pace of trials promises, over every database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import update

from bln_search.storage.browse import Page, list_studies
from bln_search.storage.engine import reading, writing
from bln_search.storage.pace import Pace, paces
from bln_search.storage.queue import Queue
from bln_search.storage.tables import AttemptRow
from tests.service.conftest import finish_trial, study

AT = datetime(2026, 1, 31, 23, 59, 30, 250_000, tzinfo=UTC)


def test_seconds_are_the_mean_of_trials_that_ended(ledger):
    study_id = Queue(ledger).submit(study(seeds=range(4)), "ada").study_id
    ledger.start_study(study_id, lambda _: True, "host/1/0")
    first, second, third, _ = ledger.open_trials(study_id)
    with reading(ledger.engine) as session:
        assert paces(session, [study_id]) == {}
    for trial in (first, second):
        finish_trial(ledger, trial)
    token = ledger.claim(third.id, "host/1/0")
    with writing(ledger.engine) as session:
        for trial, seconds in ((first, 50), (second, 70)):  # over the end of a month
            times = {"started_at": AT, "ended_at": AT + timedelta(seconds=seconds)}
            session.execute(update(AttemptRow).where(AttemptRow.trial_id == trial.id).values(times))
        session.execute(update(AttemptRow).where(AttemptRow.id == token).values(started_at=AT))
    with reading(ledger.engine) as session:
        assert paces(session, []) == {}
        assert paces(session, [study_id]) == {study_id: Pace(60.0, (AT,))}
    (line,) = list_studies(ledger.engine, Page(5, "created"))
    assert line.pace == Pace(60.0, (AT,))


def test_what_is_left_is_shared_by_the_trials_under_way():
    pace = Pace(60.0, (AT, AT - timedelta(seconds=90)))
    assert pace.left(0, AT) == 30  # one has a minute to go, the other is late
    assert pace.left(4, AT) == (4 * 60 + 60) / 2
    assert Pace(60.0).left(4, AT) == 240
