"""The place of a study in the queue is the order in which workers claim."""

from __future__ import annotations

import pytest

from tests.contracts.queued_studies import all_are_alive, study

ACCOUNTS = {"a": "ada", "b": "bob", "c": "cyd"}


@pytest.mark.parametrize("owners", ["aabab", "abbba", "ccbba"], ids=str)
def test_studies_are_claimed_in_the_order_of_the_queue(ledger, owners):
    for number, owner in enumerate(owners):
        study_id = ledger.queue.submit_study(study(f"s{number}"), ACCOUNTS[owner]).study_id
        ledger.queue.update_study_metadata(study_id, {"priority": -(number == 1)})
    claimed = []
    for _ in owners:
        first = next(iter(ledger.queue.read_queue_places(99)))
        claimed.append(ledger.queue.claim_next_study(f"host/{len(claimed)}/0", all_are_alive, 99))
        assert claimed[-1] == first
    assert ledger.queue.read_queue_places(99) == {}


def test_queue_is_known_to_its_end(ledger):
    ids = [
        ledger.queue.submit_study(study(f"s{number}"), ACCOUNTS[owner]).study_id for number, owner in enumerate("aaabb")
    ]
    before = tuple(ledger.queue.read_queue_places(99))
    assert before == tuple(ids[place] for place in (0, 3, 1, 4, 2))
    claimed = tuple(ledger.queue.claim_next_study(f"host/{number}/0", all_are_alive, 99) for number in ids)
    assert claimed == before


@pytest.mark.parametrize("limit", [1, 2])
def test_queue_respects_the_limit_of_running_studies(ledger, limit):
    for number, owner in enumerate("aaaab"):
        ledger.queue.submit_study(study(f"s{number}"), ACCOUNTS[owner])
    order, claimed = tuple(ledger.queue.read_queue_places(limit)), []
    while (study_id := ledger.queue.claim_next_study(f"host/{len(claimed)}/0", all_are_alive, limit)) is not None:
        claimed.append(study_id)
    assert len(claimed) == limit + 1
    assert order[: len(claimed)] == tuple(claimed)
    places = ledger.queue.read_queue_places(limit)
    assert [(place.number, place.running, place.at_limit) for place in places.values()] == [
        (number, limit, True) for number in range(1, 5 - limit)
    ]
