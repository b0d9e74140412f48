"""Messages of the webhook as the API and the page of their study show them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest

from bln_search.core.states import DeliveryState
from tests.support.service_world import HTML_HEADERS, STUDIES, study


@pytest.fixture
def cancelled(world):
    """A study whose message waits."""
    world.ledger.deliveries.start_announcing()
    study_id = world.queue.submit_study(study(), "ada").study_id
    world.queue.cancel(study_id)
    return study_id


def record(world, answer, state):
    delay = timedelta(0)
    world.ledger.deliveries.record_answer(world.ledger.deliveries.claim_due_delivery(), answer, state, delay)


def read_line(world, study_id, part=""):
    """The line of the page about the message."""
    page = world.client(**HTML_HEADERS).get(f"/studies/{study_id}{part}").text
    line = re.search(r'<p class="quiet" id="delivery"( data-queued)?>(.*?)</p>', page)
    return None if line is None else (bool(line[1]), re.sub(r"<time [^>]*>.*?</time>", "TIME", line[2]))


def test_deliveries_are_listed_with_their_last_answer(world, cancelled):
    path = f"{STUDIES}/{cancelled}/deliveries"
    (delivery,) = world.client().get(path).json()["items"]
    ended_at = world.client().get(f"{STUDIES}/{cancelled}").json()["ended_at"]
    assert delivery.pop("message_id").startswith("msg_")
    assert delivery == {
        "study_state": "cancelled",
        "ended_at": ended_at,
        "state": "waiting",
        "attempts": 0,
        "attempted_at": None,
        "answer": None,
    }
    record(world, "HTTP 500", DeliveryState.WAITING)
    (delivery,) = world.client().get(path).json()["items"]
    assert (delivery["attempts"], delivery["answer"]) == (1, "HTTP 500")
    assert datetime.fromisoformat(delivery["attempted_at"]) >= datetime.fromisoformat(ended_at)


def test_page_of_a_study_says_whether_its_message_was_accepted(world, cancelled):
    assert read_line(world, cancelled) == (True, "Webhook: message waits since TIME")
    record(world, "HTTP 500", DeliveryState.WAITING)
    waits = (True, "Webhook: message waits since TIME; attempt 1, TIME: HTTP 500")
    assert read_line(world, cancelled) == waits == read_line(world, cancelled, "/parts/head")
    record(world, "<b>", DeliveryState.GIVEN_UP)
    assert read_line(world, cancelled) == (False, "Webhook: message given up, attempt 2, TIME: &lt;b&gt;")


def test_page_shows_the_message_of_the_last_end_and_none_of_a_study_that_runs_again(world, cancelled):
    record(world, "HTTP 204", DeliveryState.ACCEPTED)
    assert read_line(world, cancelled) == (False, "Webhook: message accepted, attempt 1, TIME: HTTP 204")
    world.queue.resume(cancelled)
    world.ledger.studies.lease_and_start(cancelled, lambda _: True, "host/1/0")
    assert read_line(world, cancelled) is None
    world.ledger.studies.fail_unless_claimed(cancelled, "host/1/0", "no GPU")
    assert read_line(world, cancelled) == (True, "Webhook: message waits since TIME")
    states = [item["study_state"] for item in world.client().get(f"{STUDIES}/{cancelled}/deliveries").json()["items"]]
    assert states == ["failed", "cancelled"]


def test_share_link_shows_no_message(world, cancelled):
    link = world.client().post(f"{STUDIES}/{cancelled}/share-links", json={"days": 7}).json()
    visitor = world.client(None, **HTML_HEADERS)
    assert visitor.get(link["path"]).status_code == 200
    assert "Webhook" not in visitor.get(f"/studies/{cancelled}").text
    assert visitor.get(f"{STUDIES}/{cancelled}/deliveries").status_code in (401, 403)


def test_page_without_a_webhook_does_not_mention_it(world):
    assert read_line(world, world.complete()) is None
