"""Releases the studies and exports of workers that are gone, so that no other worker is needed for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bln_search.core.errors import BlnSearchError
from bln_search.core.process_identity import may_be_alive
from bln_search.storage.ledger import Ledger

_log = logging.getLogger(__name__)
_INTERVAL = 2.0
"""Seconds between two looks."""

_JOIN_TIMEOUT = 5.0
"""Seconds for the last look, in which a database may hang."""


@contextmanager
def releasing_lost_work(ledger: Ledger, interval: float = _INTERVAL) -> Iterator[None]:
    """Release, inside the block, what belongs to a worker that has ended or whose lease has expired.

    Args:
        ledger: The ledger.
        interval: Seconds between two looks.
    """
    ended = threading.Event()

    def look_until_ended() -> None:
        is_failing = False
        while not ended.wait(interval):
            try:
                ledger.studies.release_lost_studies(may_be_alive)
                ledger.export_jobs.release_lost_exports(may_be_alive)
                is_failing = False
            except BlnSearchError as error:
                if not is_failing:  # an outage is logged once
                    _log.warning("work of lost workers is not released: %s", error)
                is_failing = True
            except Exception:  # noqa: BLE001 - the next look may succeed
                if not is_failing:
                    _log.exception("work of lost workers is not released")
                is_failing = True

    thread = threading.Thread(target=look_until_ended, daemon=True, name="lost work")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_JOIN_TIMEOUT)
