"""Leases are counted by the clock of the database, not by those of the processes."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from bln_search.core.enums import Scope
from bln_search.core.errors import StudyBusyError
from bln_search.core.states import StudyState
from bln_search.storage.engine import read_session, write_session
from bln_search.storage.leases import LEASE
from bln_search.storage.tables import AttemptRow, StudyRow, WorkerRow
from tests.contracts.queued_studies import study

SHIFTED = """
import datetime, sys, time
off, url = float(sys.argv[1]), sys.argv[2]
real, own = datetime.datetime, time.time

class Shifted(real):
    @classmethod
    def now(cls, tz=None):
        return real.now(tz) + datetime.timedelta(seconds=off)

datetime.datetime, time.time = Shifted, lambda: own() + off

from bln_search.storage.ledger import open_and_upgrade_ledger

ledger = open_and_upgrade_ledger(url)
name = "far/1/0"
ledger.workers.record_heartbeat(name, "cpu", "1")
print("study", ledger.queue.claim_next_study(name, lambda _: True, 100))
print("analysis", ledger.analyses.claim_study_without_analysis(name))
for study_id in map(int, sys.argv[3:]):
    try:
        ledger.studies.lease_and_start(study_id, lambda _: True, name)
        print("started", study_id)
    except Exception as error:
        print(type(error).__name__, study_id)
print("workers", *[worker.name for worker in ledger.workers.list_live_workers()])
"""
"""A worker whose clock is wrong, which asks for everything there is."""


@pytest.fixture
def ledger(ledger):
    ledger.tokens.create_token("ada", Scope.WRITE)
    return ledger


@pytest.fixture
def running(ledger):
    """A study that a worker runs, with a trial under way, and one that another analyses."""
    analysed = ledger.queue.submit_study(study("analysed"), "ada").study_id
    assert ledger.queue.claim_next_study("near/1/0", lambda _: True, 100) == analysed
    token = ledger.attempts.claim_trial(ledger.trials.list_claimable_trials(analysed)[0].id, "near/1/0")
    ledger.attempts.record_divergence(token, "nan")
    assert ledger.studies.finish_run(analysed, runner="near/1/0") is StudyState.COMPLETE
    assert ledger.analyses.claim_study_without_analysis("near/1/0") == analysed
    run = ledger.queue.submit_study(study("run"), "ada").study_id
    assert ledger.queue.claim_next_study("near/2/0", lambda _: True, 100) == run
    ledger.attempts.claim_trial(ledger.trials.list_claimable_trials(run)[0].id, "near/2/0")
    for name in ("near/1/0", "near/2/0"):
        ledger.workers.record_heartbeat(name, "cpu", "1")
    return run


def leases(ledger):
    with read_session(ledger.database.engine) as session:
        studies = session.scalars(select(StudyRow.runner_until).order_by(StudyRow.id)).all()
        return [*studies, *session.scalars(select(AttemptRow.lease_until)).all()]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres"])  # SQLite has no clock but that of the process
@pytest.mark.parametrize("seconds", [90, -90])
def test_worker_with_a_wrong_clock_claims_nothing(ledger, running, seconds):
    before = leases(ledger)
    url = ledger.database.engine.url.render_as_string(hide_password=False)
    command = [sys.executable, "-c", SHIFTED, str(seconds), url, str(running)]
    completed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()
    assert completed == [
        "study None",
        "analysis None",
        f"StudyBusyError {running}",
        "workers far/1/0 near/1/0 near/2/0",
    ]
    assert leases(ledger) == before
    with read_session(ledger.database.engine) as session:
        beats = session.scalars(select(WorkerRow.heartbeat_at)).all()
        assert max(beats) - min(beats) < timedelta(seconds=60)


def test_lease_is_counted_by_the_database_clock(ledger, running):
    database_time = ledger.database.now()
    assert abs(database_time - datetime.now(UTC)) < timedelta(minutes=1)  # both are on this machine
    assert all(timedelta(0) < lease - database_time <= LEASE for lease in leases(ledger))
    assert len(ledger.workers.list_live_workers()) == 2


def test_time_advances_within_a_transaction(ledger):
    with read_session(ledger.database.engine) as session:
        assert ledger.database.now(session) < ledger.database.now(session)
        ledger.database.clock = lambda: datetime(2026, 1, 1, tzinfo=UTC)
        assert ledger.database.now(session).year == 2026


def set_lease_of(ledger, study_id, until):
    with write_session(ledger.database.engine) as session:
        session.execute(update(StudyRow).where(StudyRow.id == study_id).values(runner_until=until))


@pytest.mark.parametrize("step", [timedelta(hours=-1), timedelta(hours=1)])
def test_live_worker_keeps_its_study_when_the_clock_is_set(ledger, running, step):
    """It has 30 seconds for its next heartbeat; workers count as alive meanwhile."""
    now = ledger.database.now()
    set_lease_of(ledger, running, now - step)
    ledger.database.lease_clock.note(now - step)
    assert ledger.queue.claim_next_study("other/1/0", lambda _: True, 100) is None
    assert ledger.analyses.claim_study_without_analysis("other/1/0") is None
    with pytest.raises(StudyBusyError):
        ledger.studies.lease_and_start(running, lambda _: True, "other/1/0")
    assert len(ledger.workers.list_live_workers()) == 2


def test_lease_from_before_the_clock_was_set_back_ends(ledger, running):
    """A process that starts later does not know that the clock was set."""
    set_lease_of(ledger, running, ledger.database.now() + timedelta(hours=1))
    assert ledger.queue.claim_next_study("other/1/0", lambda _: True, 100) == running
