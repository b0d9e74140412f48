"""Messages about ends of studies are posted until they are accepted or given up."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update
from standardwebhooks import Webhook as StandardWebhook

from bln_search.core.errors import LedgerError, SpecError
from bln_search.core.states import DeliveryState
from bln_search.settings import Settings
from bln_search.storage.engine import write_session
from bln_search.storage.tables import DeliveryRow
from bln_search.worker.analysis import compute_and_store_analysis
from service.webhook import deliverer
from service.webhook.deliverer import (
    MAX_ATTEMPTS,
    choose_delay,
    deliver_next_message,
    delivering_messages,
    find_webhook,
)
from tests.support.service_world import study
from tests.support.webhook_receiver import SECRET, receiving

INTERVAL = 0.01


@pytest.fixture
def ledger(world):
    world.ledger.deliveries.start_announcing()
    return world.ledger


def cancel_new_study(ledger, name="study"):
    study_id = ledger.queue.submit_study(study(name), "ada").study_id
    ledger.queue.cancel(study_id)
    return study_id


def make_due(ledger, **values):
    """Let the next attempt follow now."""
    with write_session(ledger.database.engine) as session:
        session.execute(update(DeliveryRow).values(next_at=datetime.now(UTC) - timedelta(seconds=1), **values))


def wait_until(happens, seconds=20):
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end
        time.sleep(INTERVAL)


def test_message_of_an_analyzed_study_has_verdict_and_recommended_row(world):
    world.ledger.deliveries.start_announcing()
    study_id = world.complete("mine")
    with receiving() as receiver:
        webhook = receiver.webhook(public_url="https://bln.example.org/lab/")
        assert not deliver_next_message(world.ledger, webhook)  # it is not analysed
        compute_and_store_analysis(world.ledger, study_id, None)
        assert deliver_next_message(world.ledger, webhook)
        (request,) = receiver.requests
    message = StandardWebhook(SECRET).verify(request.body, request.headers)
    analysis = world.client().get(f"/api/v1/studies/{study_id}/analysis").json()["analysis"]
    page = f"https://bln.example.org/lab/studies/{study_id}"
    described = world.client().get(f"/api/v1/studies/{study_id}").json()
    shared = ("id", "name", "title", "owner", "state", "reason", "created_at", "started_at", "ended_at")
    assert message["event"] == "study.complete"
    assert message["study"] == {**{name: described[name] for name in shared}, "page": page}
    assert message["recommendation"] == analysis["recommendation"]
    assert message["verdict"]
    assert message["text"].startswith(f"Study mine ({study_id}) of ada: complete. Recommended: bln ")
    assert message["text"].endswith(f"{message['verdict']}. {page}")
    assert "type" not in message  # Mattermost would refuse it


def test_hostile_reason_mentions_nobody_in_a_chat(ledger):
    study_id = cancel_new_study(ledger)
    reason = "<!channel> @all `x` & [a](http://b)\r\nthe end. " + "x" * 3000
    make_due(ledger, study_state="failed", reason=reason)
    with receiving() as receiver:
        assert deliver_next_message(ledger, receiver.webhook())
        message = json.loads(receiver.requests[0].body)
    assert message["study"]["reason"] == reason
    assert message["text"].startswith(
        f"Study study ({study_id}) of ada: failed: ‹!channel› (at)all 'x' + [a] (http://b)  the end."
    )
    assert len(message["text"]) < 500
    assert (message["recommendation"], message["verdict"], message["study"]["page"]) == (None, None, None)


def test_message_is_repeated_unchanged_until_it_is_accepted(ledger, caplog):
    study_id = cancel_new_study(ledger)
    with receiving(500, 302) as receiver:
        webhook = receiver.webhook()
        for answer in ("HTTP 500", "HTTP 302, and redirects are not followed", "HTTP 204"):
            make_due(ledger)
            ledger.queue.update_study_metadata(study_id, {"title": f"before {answer}"})
            assert deliver_next_message(ledger, webhook)
            (delivery,) = ledger.deliveries.list_deliveries(study_id)
            assert delivery.answer == answer
            assert not deliver_next_message(ledger, webhook)
        first, *others = receiver.requests
    assert len(others) == 2
    assert all((other.message_id, other.body) == (first.message_id, first.body) for other in others)
    assert (delivery.state, delivery.attempts) == (DeliveryState.ACCEPTED, 3)
    outcomes = [record.levelno for record in caplog.records if record.name == deliverer.__name__]
    assert outcomes[:2] == [logging.WARNING] * 2
    assert receiver.url not in caplog.text


@pytest.mark.parametrize(("answer", "attempts"), [(410, 1), (500, MAX_ATTEMPTS)])
def test_message_is_given_up_at_once_if_it_is_unwanted_and_else_after_many_attempts(ledger, answer, attempts):
    study_id = cancel_new_study(ledger)
    with receiving(default=answer) as receiver:
        webhook = receiver.webhook()
        if attempts > 1:
            make_due(ledger, attempts=attempts - 2)
            assert deliver_next_message(ledger, webhook)
            assert ledger.deliveries.list_deliveries(study_id)[0].state is DeliveryState.WAITING
            make_due(ledger)
        assert deliver_next_message(ledger, webhook)
        make_due(ledger)
        assert not deliver_next_message(ledger, webhook)
    (delivery,) = ledger.deliveries.list_deliveries(study_id)
    assert (delivery.state, delivery.attempts) == (DeliveryState.GIVEN_UP, attempts)


def test_delays_double_up_to_an_hour_and_last_about_three_days():
    delays = [choose_delay(attempts).total_seconds() for attempts in range(1, MAX_ATTEMPTS)]
    for number, delay in enumerate(delays):
        longest = min(5 * 2**number, 3600)
        assert 0.75 * longest <= delay <= longest
    assert 2.5 <= sum(delays) / 86_400 <= 3.5
    assert choose_delay(10**6) <= timedelta(hours=1)
    assert len({choose_delay(20) for _ in range(5)}) > 1


def test_attempt_with_an_unexpected_error_counts(ledger, monkeypatch, caplog):
    study_id = cancel_new_study(ledger)
    with receiving() as receiver, monkeypatch.context() as patch:
        patch.setattr(deliverer, "make_message", lambda *_: 1 / 0)
        assert deliver_next_message(ledger, receiver.webhook())
        assert receiver.requests == []
    (delivery,) = ledger.deliveries.list_deliveries(study_id)
    assert (delivery.state, delivery.answer) == (
        DeliveryState.WAITING,
        "the service failed to post it; its log has the reason",
    )
    assert "ZeroDivisionError" in caplog.text


def test_thread_delivers_every_message_and_survives_an_outage(world, monkeypatch, caplog):
    ledger = world.ledger
    claim, failures = ledger.deliveries.claim_due_delivery, []

    def fail_three_times():
        if len(failures) < 3:
            failures.append(True)
            raise LedgerError("the database is away")
        return claim()

    monkeypatch.setattr(ledger.deliveries, "claim_due_delivery", fail_three_times)
    with receiving() as receiver, delivering_messages(ledger, receiver.webhook(), INTERVAL):
        ids = [cancel_new_study(ledger, f"study{number}") for number in range(5)]
        wait_until(lambda: len(receiver.requests) == 5)
        wait_until(
            lambda: all(ledger.deliveries.list_deliveries(one)[0].state is DeliveryState.ACCEPTED for one in ids)
        )
    assert len({request.message_id for request in receiver.requests}) == 5
    assert caplog.text.count("messages of the webhook are not delivered: the database is away") == 1


def test_webhook_survives_a_service_without_one_beside_it_and_ends_when_none_has_one(world):
    ledger = world.ledger
    cancel_new_study(ledger, "before")
    with receiving() as receiver, delivering_messages(ledger, receiver.webhook(), INTERVAL):
        with delivering_messages(ledger, None):
            pass
        wait_until(ledger.deliveries._is_announcing)
        cancel_new_study(ledger, "between")
        wait_until(lambda: receiver.requests)
    with delivering_messages(ledger, None):
        assert ledger.deliveries.list_deliveries(cancel_new_study(ledger, "after")) == []
    assert len(receiver.requests) == 1


def test_webhook_without_a_secret_is_one_error(tmp_path):
    assert find_webhook(Settings(home=tmp_path)) is None
    url = "https://hush@host/hush"
    with pytest.raises(
        SpecError, match="set either BLN_SEARCH_WEBHOOK_SECRET or BLN_SEARCH_WEBHOOK_SECRET_FILE, because every"
    ) as error:
        find_webhook(Settings(webhook_url=url))
    assert "hush" not in str(error.value)
    with pytest.raises(SpecError, match="both have a secret"):
        find_webhook(Settings(webhook_url=url, webhook_secret=SECRET, webhook_secret_file=tmp_path / "secret"))
    (tmp_path / "secret").write_text(f"\ufeff{SECRET}\n")
    assert find_webhook(Settings(webhook_url=url, webhook_secret_file=tmp_path / "secret")).key == b"secret" * 4
    (tmp_path / "secret").write_text("whsec_hush")
    with pytest.raises(SpecError, match=r"SECRET_FILE: .*secret: write whsec_ and 24 to 64 bytes") as error:
        find_webhook(Settings(webhook_url=url, webhook_secret_file=tmp_path / "secret"))
    assert "hush" not in str(error.value)
