"""Metrics of the ledger, over every database."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bln_search.core.enums import Scope
from bln_search.core.states import (
    AttemptState,
    DeliveryState,
    EvaluationState,
    ExportState,
    StopRequest,
    StudyState,
    TrialState,
)
from bln_search.storage.leases import WORKER_TIMEOUT
from tests.contracts.queued_studies import CAP, all_are_alive, study
from tests.support.service_world import finish_trial


@pytest.fixture(autouse=True)
def account(ledger):
    """Workers claim studies of accounts."""
    ledger.tokens.create_token("ada", Scope.WRITE)


def read_metrics(ledger):
    return ledger.monitoring.measure_ledger_metrics()


def waiting_seconds(ledger):
    waiting_since = read_metrics(ledger).oldest_waiting
    return None if waiting_since is None else round((ledger.now() - waiting_since).total_seconds())


def test_empty_ledger_has_metrics(ledger):
    figures = read_metrics(ledger)
    assert (figures.waiting, figures.oldest_waiting, figures.workers, figures.busy) == (0, None, 0, 0)
    assert figures.size > 10_000


def test_every_stored_state_is_counted_even_without_records(ledger):
    study_id = ledger.queue.submit_study(study(seeds="0, 1"), "ada").study_id
    ledger.queue.claim_next_study("host/1/0", all_are_alive, CAP)
    finish_trial(ledger, ledger.trials.list_claimable_trials(study_id)[0])
    counts = ledger.monitoring.count_records_by_kind_and_state()
    states = {
        "study": StudyState,
        "trial": TrialState,
        "attempt": AttemptState,
        "evaluation": EvaluationState,
        "export": ExportState,
        "delivery": DeliveryState,
    }
    assert {kind: set(state_counts) for kind, state_counts in counts.items()} == {
        kind: {state.value for state in enum}
        - {"trial": {"cancelled"}, "attempt": {"diverged", "pruned"}}.get(kind, set())
        for kind, enum in states.items()
    }
    nonzero = {
        kind: {state: count for state, count in state_counts.items() if count} for kind, state_counts in counts.items()
    }
    assert nonzero == {
        "study": {"running": 1},
        "trial": {"finished": 1, "waiting": 1},
        "attempt": {"succeeded": 1},
        "evaluation": {"measured": 30, "undefined": 2},
        "export": {},
        "delivery": {},
    }


def test_oldest_waiting_study_has_its_time(ledger, wait):
    ledger.queue.submit_study(study("first"), "ada")
    wait(timedelta(seconds=50))
    ledger.queue.submit_study(study("second"), "ada")
    wait(timedelta(seconds=10))
    assert (read_metrics(ledger).waiting, waiting_seconds(ledger)) == (2, 60)
    ledger.queue.claim_next_study("host/1/0", all_are_alive, CAP)
    assert (read_metrics(ledger).waiting, waiting_seconds(ledger)) == (1, 10)


def test_resumed_study_waits_from_its_resumption(ledger, wait):
    study_id = ledger.queue.submit_study(study(), "ada").study_id
    wait(timedelta(seconds=1000))
    ledger.queue.request_stop(study_id, StopRequest.PAUSE)
    assert (read_metrics(ledger).waiting, waiting_seconds(ledger)) == (0, None)
    wait(timedelta(seconds=1000))
    ledger.queue.resume(study_id)
    wait(timedelta(seconds=5))
    ledger.queue.update_study_metadata(study_id, {"name": "renamed"})
    assert (read_metrics(ledger).waiting, waiting_seconds(ledger)) == (1, 5)


def test_study_of_a_command_is_not_queued(ledger):
    ledger.studies.store_study_once(study())
    assert (read_metrics(ledger).waiting, waiting_seconds(ledger)) == (0, None)


def test_live_and_busy_workers_are_counted(ledger, wait):
    for worker in ("host/1/0", "host/2/0"):
        ledger.workers.record_heartbeat(worker, "cpu", "0")
    assert (read_metrics(ledger).workers, read_metrics(ledger).busy) == (2, 0)
    ledger.queue.submit_study(study(), "ada")
    ledger.queue.claim_next_study("host/1/0", all_are_alive, CAP)
    assert (read_metrics(ledger).workers, read_metrics(ledger).busy) == (2, 1)
    wait(WORKER_TIMEOUT + timedelta(seconds=1))
    ledger.workers.record_heartbeat("host/2/0", "cpu", "0")
    assert (read_metrics(ledger).workers, read_metrics(ledger).busy) == (1, 0)
