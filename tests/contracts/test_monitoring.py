"""What the monitoring reads of the ledger, over every database."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bln_search.core.enums import Scope
from bln_search.core.states import AttemptState, EvaluationState, Request, StudyState, TrialState
from bln_search.storage.access import create_token
from bln_search.storage.monitoring import ledger_figures, records_by_state
from bln_search.storage.queue import SEEN, Queue
from tests.contracts.test_queue import CAP, everybody, study
from tests.service.conftest import finish_trial


@pytest.fixture
def queue(ledger):
    """A queue, and hands to put its clock forward."""
    create_token(ledger.engine, "ada", Scope.WRITE)
    start, passed = ledger.clock(), [timedelta(0)]
    ledger.clock = lambda: start + passed[0]
    made = Queue(ledger)
    made.wait = lambda seconds: passed.__setitem__(0, passed[0] + timedelta(seconds=seconds))
    return made


def read(queue):
    return ledger_figures(queue.engine, queue.clock())


def waited(queue):
    since = read(queue).oldest_waiting
    return None if since is None else round((queue.clock() - since).total_seconds())


def test_an_empty_ledger_has_figures(queue):
    figures = read(queue)
    assert (figures.waiting, figures.oldest_waiting, figures.workers, figures.busy) == (0, None, 0, 0)
    assert figures.size > 10_000


def test_every_state_is_counted_also_where_nothing_is_in_it(queue):
    study_id = queue.submit(study(seeds="0, 1"), "ada").study_id
    queue.claim("host/1/0", everybody, CAP)
    finish_trial(queue.ledger, queue.ledger.open_trials(study_id)[0])
    counted = records_by_state(queue.engine)
    states = {"study": StudyState, "trial": TrialState, "attempt": AttemptState, "evaluation": EvaluationState}
    assert {kind: set(found) for kind, found in counted.items()} == {
        kind: {one.value for one in closed} for kind, closed in states.items()
    }
    some = {kind: {state: count for state, count in found.items() if count} for kind, found in counted.items()}
    assert some == {
        "study": {"running": 1},
        "trial": {"finished": 1, "waiting": 1},
        "attempt": {"succeeded": 1},
        "evaluation": {"measured": 30, "undefined": 2},
    }


def test_the_study_that_waits_longest_says_for_how_long(queue):
    queue.submit(study("first"), "ada")
    queue.wait(50)
    queue.submit(study("second"), "ada")
    queue.wait(10)
    assert (read(queue).waiting, waited(queue)) == (2, 60)
    queue.claim("host/1/0", everybody, CAP)
    assert (read(queue).waiting, waited(queue)) == (1, 10)


def test_a_study_that_was_resumed_waits_from_then_on(queue):
    study_id = queue.submit(study(), "ada").study_id
    queue.wait(1000)
    queue.request(study_id, Request.PAUSE)
    assert (read(queue).waiting, waited(queue)) == (0, None)
    queue.wait(1000)
    queue.resume(study_id)
    queue.wait(5)
    queue.change(study_id, {"name": "renamed"})
    assert (read(queue).waiting, waited(queue)) == (1, 5)


def test_a_study_of_a_command_is_in_no_queue(queue):
    queue.ledger.accept(study())
    assert (read(queue).waiting, waited(queue)) == (0, None)


def test_workers_are_seen_and_busy(queue):
    for worker in ("host/1/0", "host/2/0"):
        queue.sign_in(worker, "cpu", "0")
    assert (read(queue).workers, read(queue).busy) == (2, 0)
    queue.submit(study(), "ada")
    queue.claim("host/1/0", everybody, CAP)
    assert (read(queue).workers, read(queue).busy) == (2, 1)
    queue.wait(SEEN.total_seconds() + 1)
    queue.sign_in("host/2/0", "cpu", "0")
    assert (read(queue).workers, read(queue).busy) == (1, 0)
