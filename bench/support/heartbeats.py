"""Heartbeats of a worker that a program pretends to be: a service would release its studies without them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import select

from bln_search.core.states import StudyState
from bln_search.storage.leases import LEASE
from bln_search.storage.ledger import Ledger
from bln_search.storage.tables import StudyRow


@contextmanager
def sending_heartbeats(ledger: Ledger, runner: str) -> Iterator[None]:
    """Renew the leases of the running studies of a worker inside the block, also those that have expired."""
    ended = threading.Event()

    def renew() -> None:
        with ledger.database.read_session() as session:
            is_running = StudyRow.runner == runner, StudyRow.state == StudyState.RUNNING
            study_ids = session.scalars(select(StudyRow.id).where(*is_running)).all()
        for study_id in study_ids:
            ledger.attempts.record_heartbeats([], study_id, runner)

    def renew_until_ended() -> None:
        while not ended.wait(LEASE.total_seconds() / 6):
            renew()

    renew()
    thread = threading.Thread(target=renew_until_ended, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
