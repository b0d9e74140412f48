"""What the queue promises, over every database."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from bln_search.core.enums import Scope
from bln_search.core.errors import (
    KeyReusedError,
    StudyBusyError,
    StudyChangedError,
    StudyLostError,
    TransitionError,
    UnknownStudyError,
)
from bln_search.core.states import Request, StudyState, TrialState
from bln_search.specs import parse_study
from bln_search.storage import queries
from bln_search.storage.access import create_token
from bln_search.storage.attempts import LEASE
from bln_search.storage.browse import find_study_line, workers_seen
from bln_search.storage.ledger import Ledger
from bln_search.storage.queue import SEEN, Queue

CAP = 100


def study(name="study", seeds="0"):
    return parse_study(
        f"{{name: {name}, data: {{name: digits}}, model: {{name: mlp}}, arms: [{{method: bln}}], seeds: [{seeds}]}}"
    )


def everybody(_worker):
    return True


def nobody(_worker):
    return False


@pytest.fixture
def queue(ledger):
    for account in ("ada", "bob", "cyd"):
        create_token(ledger.engine, account, Scope.WRITE)
    return Queue(ledger)


def line(queue, study_id):
    return find_study_line(queue.engine, study_id)[0]


def kinds(queue, study_id):
    return [event.kind for event in queries.events(queue.engine, study_id)]


def test_the_same_study_of_the_same_owner_is_the_same_study(queue):
    first = queue.submit(study(), "ada")
    again = queue.submit(study(), "ada")
    other = queue.submit(study(), "bob")
    assert first.new
    assert not again.new
    assert again.study_id == first.study_id
    assert other.new
    assert other.study_id != first.study_id


def test_an_idempotency_key_stands_for_one_study(queue):
    first = queue.submit(study(), "ada", "key")
    assert queue.submit(study(), "ada", "key").study_id == first.study_id
    with pytest.raises(KeyReusedError, match="use a new key"):
        queue.submit(study("other"), "ada", "key")
    assert queue.submit(study("other"), "bob", "key").new  # a key belongs to its owner
    queue.delete(first.study_id)
    assert queue.submit(study("other"), "ada", "key").new  # and goes with its study


def test_the_same_sent_by_many_at_once_is_there_once(queue):
    start = threading.Barrier(8)

    def send(_number):
        start.wait()
        return queue.submit(study(), "ada", "key")

    with ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(send, range(8)))
    assert len({one.study_id for one in sent}) == 1
    assert sum(one.new for one in sent) == 1


def test_highest_priority_first_then_the_oldest(queue):
    ids = [queue.submit(study(f"s{number}"), "ada").study_id for number in range(4)]
    queue.change(ids[2], {"priority": 5})
    taken = [queue.claim(f"host/{number}/0", everybody, CAP) for number in range(5)]
    assert taken == [ids[2], ids[0], ids[1], ids[3], None]


def test_owners_take_turns(queue):
    mine = [queue.submit(study(f"a{number}"), "ada").study_id for number in range(3)]
    theirs = [queue.submit(study(f"b{number}"), "bob").study_id for number in range(2)]
    taken = []
    for _ in range(5):  # one worker, which ends each study before it takes the next
        taken.append(queue.claim("host/1/0", everybody, CAP))
        queue.ledger.fail_study(taken[-1], "host/1/0", "over")
    assert taken == [mine[0], theirs[0], mine[1], theirs[1], mine[2]]


def test_an_owner_has_no_more_running_than_the_cap(queue):
    for number in range(3):
        queue.submit(study(f"a{number}"), "ada")
    other = queue.submit(study("b"), "bob").study_id
    taken = [queue.claim(f"host/{number}/0", everybody, 1) for number in range(3)]
    assert other in taken
    assert taken[2] is None


def test_every_study_goes_to_one_worker_and_the_cap_holds_whoever_claims(queue):
    ids = [
        queue.submit(study(f"{owner[0]}{number}"), owner).study_id for number in range(6) for owner in ("ada", "bob")
    ]
    start = threading.Barrier(8)

    def claim(number):
        start.wait()
        found = [queue.claim(f"host/{number}/{turn}", everybody, 3) for turn in range(4)]
        return [one for one in found if one is not None]

    with ThreadPoolExecutor(8) as pool:
        taken = [one for found in pool.map(claim, range(8)) for one in found]
    turns = itertools.count()
    while (one := queue.claim(f"host/9/{next(turns)}", everybody, 3)) is not None:  # those that were locked just then
        taken.append(one)
    assert len(taken) == len(set(taken)) == 6
    assert set(taken) <= set(ids)
    owners = [line(queue, one).owner for one in taken]
    assert owners.count("ada") == owners.count("bob") == 3


def test_a_study_without_an_owner_is_in_no_queue(queue):
    queue.ledger.accept(study())
    assert queue.claim("host/1/0", everybody, CAP) is None


def test_a_study_whose_worker_is_gone_is_put_back_and_its_late_reports_are_refused(queue):
    study_id = queue.submit(study(), "ada").study_id
    assert queue.claim("host/1/0", everybody, CAP) == study_id
    (trial,) = queue.ledger.open_trials(study_id)
    queue.ledger.claim(trial.id, "host/1/0")
    assert queue.claim("host/2/0", everybody, CAP) is None
    assert queue.claim("host/2/0", nobody, CAP) == study_id
    assert [one.id for one in queue.ledger.open_trials(study_id)] == [trial.id]
    with pytest.raises(StudyLostError, match="run by host/2/0 now"):
        queue.ledger.standing(study_id, "host/1/0")
    queue.ledger.fail_study(study_id, "host/1/0", "late")  # says nothing any more
    assert line(queue, study_id).state == StudyState.RUNNING


def test_a_silent_worker_loses_its_study_when_its_lease_is_over(ledger):
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    queue = Queue(Ledger(ledger.engine, clock=lambda: now[0]))
    create_token(ledger.engine, "ada", Scope.WRITE)
    study_id = queue.submit(study(), "ada").study_id
    assert queue.claim("far/1/0", everybody, CAP) == study_id
    now[0] += LEASE - timedelta(seconds=1)
    assert queue.claim("near/1/0", everybody, CAP) is None
    queue.ledger.heartbeat([], study_id, "far/1/0")
    now[0] += LEASE - timedelta(seconds=1)
    assert queue.claim("near/1/0", everybody, CAP) is None
    now[0] += timedelta(seconds=2)
    assert queue.claim("near/1/0", everybody, CAP) == study_id


def test_a_study_that_workers_die_on_fails_with_the_reason(queue):
    study_id = queue.submit(study(), "ada").study_id
    for number in range(5):
        assert queue.claim(f"host/{number}/0", nobody, CAP) == study_id
    assert queue.claim("host/9/0", nobody, CAP) is None
    assert line(queue, study_id).state == StudyState.FAILED
    assert "5 workers died" in line(queue, study_id).reason
    queue.resume(study_id)
    assert line(queue, study_id).reason is None
    assert queue.claim("host/9/0", nobody, CAP) == study_id


@pytest.mark.parametrize(
    ("request_", "state"), [(Request.PAUSE, StudyState.PAUSED), (Request.CANCEL, StudyState.CANCELLED)]
)
class TestRequests:
    def test_one_that_waits_is_stopped_at_once_and_goes_on_when_resumed(self, queue, request_, state):
        study_id = queue.submit(study(), "ada").study_id
        queue.request(study_id, request_)
        queue.request(study_id, request_)  # again is no error
        assert line(queue, study_id).state == state
        assert queue.claim("host/1/0", everybody, CAP) is None
        queue.resume(study_id)
        assert queue.claim("host/1/0", everybody, CAP) == study_id

    def test_one_that_runs_is_stopped_by_its_worker(self, queue, request_, state):
        study_id = queue.submit(study(), "ada").study_id
        queue.claim("host/1/0", everybody, CAP)
        assert queue.ledger.standing(study_id, "host/1/0") is None
        queue.request(study_id, request_)
        assert line(queue, study_id).state == StudyState.RUNNING
        assert queue.ledger.standing(study_id, "host/1/0") is request_
        assert queue.ledger.end_study(study_id, exhausted=False, runner="host/1/0") is state
        assert line(queue, study_id).request is None

    def test_a_request_is_seen_to_where_the_worker_dies(self, queue, request_, state):
        study_id = queue.submit(study(), "ada").study_id
        queue.claim("host/1/0", everybody, CAP)
        queue.request(study_id, request_)
        assert queue.claim("host/2/0", nobody, CAP) is None
        assert line(queue, study_id).state == state

    def test_a_request_can_be_taken_back(self, queue, request_, state):
        study_id = queue.submit(study(), "ada").study_id
        queue.claim("host/1/0", everybody, CAP)
        queue.request(study_id, request_)
        queue.resume(study_id)
        assert queue.ledger.standing(study_id, "host/1/0") is None
        assert kinds(queue, study_id)[-1] == "request_withdrawn"


def test_a_complete_study_cannot_be_paused(queue):
    study_id = queue.submit(study(), "ada").study_id
    queue.claim("host/1/0", everybody, CAP)
    (trial,) = queue.ledger.open_trials(study_id)
    token = queue.ledger.claim(trial.id, "host/1/0")
    queue.ledger.record_divergence(token, "nan")
    assert queue.ledger.end_study(study_id, runner="host/1/0") is StudyState.COMPLETE
    with pytest.raises(TransitionError, match="complete"):
        queue.request(study_id, Request.PAUSE)
    assert line(queue, study_id).results == 1


def test_a_worker_that_stops_hands_its_study_back(queue):
    study_id = queue.submit(study(), "ada").study_id
    queue.claim("host/1/0", everybody, CAP)
    (trial,) = queue.ledger.open_trials(study_id)
    token = queue.ledger.claim(trial.id, "host/1/0")
    queue.ledger.release([token])
    assert queue.ledger.end_study(study_id, exhausted=False, runner="host/1/0") is StudyState.ACCEPTED
    assert queue.claim("host/2/0", everybody, CAP) == study_id
    assert line(queue, study_id).trials == {TrialState.WAITING: 1}


def test_a_change_names_the_revision_it_was_made_for(queue):
    study_id = queue.submit(study(), "ada").study_id
    before = line(queue, study_id).revision
    queue.change(study_id, {"notes": "mine", "name": "renamed"}, before)
    assert (line(queue, study_id).notes, line(queue, study_id).name) == ("mine", "renamed")
    with pytest.raises(StudyChangedError, match="read it again"):
        queue.change(study_id, {"notes": "theirs"}, before)
    queue.change(study_id, {"notes": "mine"})
    assert line(queue, study_id).revision == before + 1  # nothing new, nothing changed


def test_a_name_that_is_taken_by_the_same_study_is_refused(queue):
    first = queue.submit(study("one"), "ada").study_id
    queue.change(first, {"name": "two"})
    second = queue.submit(study("one"), "ada").study_id
    assert second != first
    with pytest.raises(StudyBusyError, match="two already"):
        queue.change(second, {"name": "two"})


def test_a_running_study_is_not_deleted(queue):
    study_id = queue.submit(study(), "ada").study_id
    queue.claim("host/1/0", everybody, CAP)
    with pytest.raises(StudyBusyError, match="cancel it, or stop its command"):
        queue.delete(study_id)
    queue.ledger.fail_study(study_id, "host/1/0", "why")
    assert queue.delete(study_id) == []
    with pytest.raises(UnknownStudyError):
        queue.delete(study_id)
    with pytest.raises(StudyLostError, match="deleted"):
        queue.ledger.standing(study_id, "host/1/0")


def test_workers_are_seen_while_they_say_so(ledger):
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    queue = Queue(Ledger(ledger.engine, clock=lambda: now[0]))
    queue.sign_in("host/1/0", "cpu", "1")
    queue.sign_in("host/2/0", "cpu", "1")
    queue.sign_out("host/2/0")
    assert [one.name for one in workers_seen(ledger.engine, now[0])] == ["host/1/0"]
    now[0] += SEEN + timedelta(seconds=1)
    assert workers_seen(ledger.engine, now[0]) == []
    queue.sign_in("host/1/0", "cpu", "1")
    assert len(workers_seen(ledger.engine, now[0])) == 1


def test_what_a_worker_could_not_hand_back_is_put_back_when_it_asks_for_more(queue):
    """Its heartbeats name the study it runs, and no other."""
    first = queue.submit(study("a"), "ada").study_id
    assert queue.claim("host/1/0", everybody, CAP) == first
    second = queue.submit(study("b"), "bob").study_id
    assert queue.claim("host/1/0", everybody, CAP) == second
    assert line(queue, first).state == StudyState.ACCEPTED
    assert line(queue, first).reason is None
    before = line(queue, first).revision
    queue.ledger.heartbeat([], second, "host/1/0")
    assert line(queue, first).revision == before


def test_a_number_is_never_given_again(queue):
    first = queue.submit(study("a"), "ada").study_id
    queue.delete(first)
    assert queue.submit(study("b"), "bob").study_id > first


def test_no_more_than_so_many_wait_whoever_sends(queue):
    start = threading.Barrier(6)

    def send(number):
        start.wait()
        try:
            return queue.submit(study(f"s{number}"), "ada", None, 3)
        except StudyBusyError:
            return None

    with ThreadPoolExecutor(6) as pool:
        sent = [one for one in pool.map(send, range(6)) if one is not None]
    assert len(sent) == 3
    name = line(queue, sent[0].study_id).name
    assert queue.submit(study(name), "ada", None, 3).study_id == sent[0].study_id  # what is there is no more


def test_what_was_given_up_comes_back_only_where_there_is_room(queue):
    first, second = (queue.submit(study(name), "ada", None, 2).study_id for name in ("first", "second"))
    queue.request(first, Request.PAUSE)
    queue.request(second, Request.CANCEL)
    queue.submit(study("third"), "ada", None, 2)
    with pytest.raises(StudyBusyError, match="2 of your studies wait, run or pause"):
        queue.resume(second, 2)
    assert line(queue, second).state == "cancelled"
    queue.resume(first, 2)  # one that was paused has its place
    queue.resume(second, 3)


def test_a_study_of_a_command_is_not_put_into_the_queue(queue):
    study_id = queue.ledger.accept(study())
    with pytest.raises(StudyBusyError, match="bln-search run"):
        queue.resume(study_id)
