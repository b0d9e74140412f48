"""The service releases what belongs to workers that are gone; no other worker is needed."""

from __future__ import annotations

import time

import pytest

from bln_search.core.errors import LedgerError
from bln_search.core.states import StudyState
from service.lost_work import releasing_lost_work
from tests.support.ended_process import name_of_ended_process
from tests.support.service_world import study

INTERVAL = 0.01


def wait_until(happens, seconds=20):
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end
        time.sleep(INTERVAL)


@pytest.mark.parametrize(
    ("act", "state"), [(None, StudyState.ACCEPTED), ("pause", StudyState.PAUSED), ("cancel", StudyState.CANCELLED)]
)
def test_study_of_a_dead_worker_is_released_and_others_run_on(world, act, state):
    lost, alive = (world.queue.submit_study(study(name), "ada").study_id for name in ("lost", "alive"))
    world.ledger.studies.lease_and_start(lost, lambda _: True, name_of_ended_process())
    world.ledger.studies.lease_and_start(alive, lambda _: True, "far/1/0")
    if act is not None:
        assert world.client().post(f"/api/v1/studies/{lost}/{act}").json()["state"] == "running"
    with releasing_lost_work(world.ledger, INTERVAL):
        wait_until(lambda: world.ledger.studies.get(lost).state is state)
    assert world.ledger.studies.get(alive).state is StudyState.RUNNING


def test_an_outage_is_logged_once_and_survived(world, monkeypatch, caplog):
    release, failures = world.ledger.studies.release_lost_studies, []
    lost = world.queue.submit_study(study("lost"), "ada").study_id
    world.ledger.studies.lease_and_start(lost, lambda _: True, name_of_ended_process())

    def fail_three_times(is_alive):
        if len(failures) < 3:
            failures.append(is_alive)
            raise LedgerError("the database is away")
        release(is_alive)

    monkeypatch.setattr(world.ledger.studies, "release_lost_studies", fail_three_times)
    with releasing_lost_work(world.ledger, INTERVAL):
        wait_until(lambda: world.ledger.studies.get(lost).state is StudyState.ACCEPTED)
    assert caplog.text.count("the database is away") == 1
