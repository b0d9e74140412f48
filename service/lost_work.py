"""Releases the studies and exports of workers that are gone, so that no other worker is needed for it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from bln_search.core.process_identity import may_be_alive
from bln_search.storage.ledger import Ledger
from service.periodic_task import repeating

_INTERVAL = 2.0
"""Seconds between two looks."""


def releasing_lost_work(ledger: Ledger, interval: float = _INTERVAL) -> AbstractContextManager[None]:
    """Release, inside the block, what belongs to a worker that has ended or whose lease has expired.

    Args:
        ledger: The ledger.
        interval: Seconds between two looks.
    """

    def release() -> bool:
        ledger.studies.release_lost_studies(may_be_alive)
        ledger.export_jobs.release_lost_exports(may_be_alive)
        return False

    return repeating(release, interval, "lost work", "work of lost workers is not released")
