"""Decides whether the analysis of a study ends early."""

from __future__ import annotations

import threading
import time

from bln_search.storage.ledger import Ledger

_INTERVAL = 1.0
"""Least number of seconds between two queries of the database."""


class AnalysisStopCheck:
    """Whether to end the analysis of a study now: the worker stops, or the study was deleted.

    Args:
        ledger: Ledger with the study.
        study_id: The study.
        stopping: Set when the worker stops.

    Attributes:
        is_deleted: The study was deleted, as far as the last query found.
    """

    def __init__(self, ledger: Ledger, study_id: int, stopping: threading.Event) -> None:
        self.ledger, self.study_id, self.stopping = ledger, study_id, stopping
        self.is_deleted = False
        self._next_query_at = 0.0

    def __call__(self) -> bool:
        """Return whether to end it."""
        if not self.is_deleted and time.monotonic() >= self._next_query_at:
            self._next_query_at = time.monotonic() + _INTERVAL
            self.is_deleted = self.ledger.studies.find_header(self.study_id) is None
        return self.is_deleted or self.stopping.is_set()
