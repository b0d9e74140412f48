"""Delivers messages about ends of studies: one after the other, each until it is accepted or given up."""

from __future__ import annotations

import logging
import random
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta

from bln_search.core.errors import BlnSearchError
from bln_search.core.states import DeliveryState
from bln_search.settings import Settings
from bln_search.storage.ledger import Ledger
from bln_search.storage.webhook.deliveries import DeliveryRecord
from service.periodic_task import repeating
from service.webhook.message import make_message
from service.webhook.post import Answer, Webhook, check_url, post_message

_log = logging.getLogger(__name__)
_INTERVAL = 2.0
"""Seconds between two looks for messages that are due."""

_FIRST_DELAY = 5.0
_MAX_DELAY = 3600.0
"""Seconds until the attempt after the first one, doubled with each attempt, and the longest."""

MAX_ATTEMPTS = 90
"""Attempts after which a message is given up: about three days."""


def delivering_messages(
    ledger: Ledger, webhook: Webhook | None, interval: float = _INTERVAL
) -> AbstractContextManager[None]:
    """Announce ends of studies from now on, and deliver the messages inside the block; neither without a webhook.

    Args:
        ledger: The ledger.
        webhook: The receiver; None if there is none.
        interval: Seconds between two looks for messages that are due.
    """
    if webhook is None:
        ledger.deliveries.stop_announcing()
        return nullcontext()
    ledger.deliveries.start_announcing()

    def deliver() -> bool:
        ledger.deliveries.start_announcing()  # another service without a webhook may have stopped it
        return deliver_next_message(ledger, webhook)

    return repeating(deliver, interval, "webhook", "messages of the webhook are not delivered")


def find_webhook(settings: Settings) -> Webhook | None:
    """Return the webhook of the settings; None if there is none. Raises SpecError if it has no usable secret."""
    if settings.webhook_url is None:
        return None
    url = settings.webhook_url.get_secret_value()
    check_url(url)
    return Webhook(url, settings.read_webhook_key(), settings.public_url)


def deliver_next_message(ledger: Ledger, webhook: Webhook) -> bool:
    """Attempt to deliver the message that has been due longest; returns whether there was one."""
    delivery = ledger.deliveries.claim_due_delivery()
    if delivery is None:
        return False
    try:
        body = delivery.body or _compose_and_store_body(ledger, delivery, webhook)
        answer = None if body is None else post_message(webhook, delivery.message_id, body)
    except BlnSearchError:  # of the database, in which nothing can be recorded now
        raise
    except Exception:  # noqa: BLE001 - one message must not be attempted for ever
        _log.exception("webhook: the attempt failed", extra={"study_id": delivery.study_id})
        answer = Answer("the service failed to post it; its log has the reason")
    if answer is not None:
        _record_answer(ledger, delivery, answer)
    return True


def _compose_and_store_body(ledger: Ledger, delivery: DeliveryRecord, webhook: Webhook) -> str | None:
    """Return the message; None if the study was deleted."""
    study = ledger.study_lists.find_study_item(delivery.study_id)
    if study is None:
        return None
    stored = ledger.analyses.find_current_analysis(delivery.study_id)
    message = make_message(delivery, study, None if stored is None else stored.analysis, webhook.public_url)
    body = message.model_dump_json()
    ledger.deliveries.store_body(delivery, body)
    return body


def _record_answer(ledger: Ledger, delivery: DeliveryRecord, answer: Answer) -> None:
    state = DeliveryState.WAITING
    if answer.is_accepted:
        state = DeliveryState.ACCEPTED
    elif answer.is_final or delivery.attempts >= MAX_ATTEMPTS:
        state = DeliveryState.GIVEN_UP
    ledger.deliveries.record_answer(delivery, answer.text, state, choose_delay(delivery.attempts))
    level = logging.INFO if answer.is_accepted else logging.WARNING
    fields = {"study_id": delivery.study_id}
    text = "webhook: message %s about study %d is %s after attempt %d: %s"
    outcome = state.value.replace("_", " ")
    _log.log(level, text, delivery.message_id, delivery.study_id, outcome, delivery.attempts, answer.text, extra=fields)


def choose_delay(attempts: int) -> timedelta:
    """Return the time until the next attempt: doubled with each one, up to an hour, with jitter."""
    longest = min(_MAX_DELAY, _FIRST_DELAY * 2 ** min(attempts - 1, 20))
    return timedelta(seconds=random.uniform(0.75, 1.0) * longest)  # noqa: S311 - it spreads load
