"""Real services deliver the messages of one database: killed in between, and two at once."""

from __future__ import annotations

import os
import signal
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from bln_search.core.states import DeliveryState
from bln_search.storage.engine import write_session
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.storage.tables import DeliveryRow
from tests.contracts.queued_studies import study
from tests.end_to_end.service import Service, until
from tests.support.webhook_receiver import SECRET, receiving

pytestmark = pytest.mark.slow


@contextmanager
def running_service(tmp_path, name, url, receiver):
    """A service over the database at `url`; it is killed if it still runs."""
    webhook = {"BLN_SEARCH_WEBHOOK_URL": receiver.url, "BLN_SEARCH_WEBHOOK_SECRET": SECRET}
    service = Service(tmp_path / name, "--no-worker", BLN_SEARCH_DATABASE=url, **webhook).start()
    try:
        yield service
    finally:
        if service.process.poll() is None:
            service.kill()
        service.process.stdout.close()


def cancel_new_study(ledger, name):
    study_id = ledger.queue.submit_study(study(name), "ada").study_id
    ledger.queue.cancel(study_id)
    return study_id


def is_accepted(ledger, study_id):
    return [delivery.state for delivery in ledger.deliveries.list_deliveries(study_id)] == [DeliveryState.ACCEPTED]


def test_message_posted_by_a_service_that_dies_before_it_records_the_answer_is_posted_again(url, tmp_path):
    services = []

    def kill_the_service(handler):
        os.kill(services[0].process.pid, signal.SIGKILL)
        services[0].process.wait(10)
        handler.close_connection = True

    with closing(open_and_upgrade_ledger(url)) as ledger, receiving(kill_the_service) as receiver:
        with running_service(tmp_path, "first", url, receiver) as service:
            services.append(service)
            study_id = cancel_new_study(ledger, "study")
            until(lambda: service.process.poll() is not None, 20)
        (delivery,) = ledger.deliveries.list_deliveries(study_id)
        assert (delivery.state, delivery.attempts, delivery.answer) == (DeliveryState.WAITING, 1, None)
        with write_session(ledger.database.engine) as session:  # after the minute in which it might have ended
            session.execute(update(DeliveryRow).values(next_at=datetime.now(UTC) - timedelta(seconds=1)))
        with running_service(tmp_path, "second", url, receiver) as service:
            until(lambda: is_accepted(ledger, study_id), 20)
            assert service.stop() == 0
            assert "/hook" not in service.log.read_text()
        first, second = receiver.requests
    assert (first.message_id, first.body) == (second.message_id, second.body)


def test_two_services_post_every_message_once(url, tmp_path):
    with (
        closing(open_and_upgrade_ledger(url)) as ledger,
        receiving() as receiver,
        running_service(tmp_path, "first", url, receiver),
        running_service(tmp_path, "second", url, receiver),
    ):
        ids = [cancel_new_study(ledger, f"study{number}") for number in range(20)]
        until(lambda: all(is_accepted(ledger, study_id) for study_id in ids), 25)
    assert len(receiver.requests) == 20
    assert len({request.message_id for request in receiver.requests}) == 20


def test_end_of_a_study_while_no_service_runs_is_announced_by_the_next_one(url, tmp_path):
    with closing(open_and_upgrade_ledger(url)) as ledger, receiving() as receiver:
        cancel_new_study(ledger, "before_the_webhook")
        with running_service(tmp_path, "service", url, receiver) as service:
            assert service.stop() == 0
        study_id = cancel_new_study(ledger, "between")
        assert receiver.requests == []
        with running_service(tmp_path, "service", url, receiver):
            until(lambda: is_accepted(ledger, study_id), 20)
    assert len(receiver.requests) == 1
