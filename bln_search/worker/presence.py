"""Sends the heartbeats of a worker from a thread, also while the worker decodes data or waits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from bln_search.core.errors import BlnSearchError, SchemaChangedError
from bln_search.core.process_identity import may_be_alive
from bln_search.core.version import VERSION
from bln_search.storage.leases import WORKER_TIMEOUT
from bln_search.storage.ledger import Ledger

_log = logging.getLogger(__name__)
_INTERVAL = WORKER_TIMEOUT.total_seconds() / 3


class HeartbeatSender:
    """Registers a worker inside the context, and renews its lease on the running study.

    Args:
        ledger: Ledger in which the worker registers.
        name: Name of the worker.
        device: Device that it trains on.
        current_study: Returns the id of the running study; None if none runs.
    """

    def __init__(self, ledger: Ledger, name: str, device: str, current_study: Callable[[], int | None]) -> None:
        self.ledger, self.name, self.device, self.current_study = ledger, name, device, current_study
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send_heartbeats_until_stopped, daemon=True, name="presence")

    def __enter__(self) -> None:
        self._send_heartbeat()
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()
        self._call_and_log_errors(lambda: self.ledger.workers.remove_worker(self.name))

    def _send_heartbeats_until_stopped(self) -> None:
        while not self._ended.wait(_INTERVAL):
            self._send_heartbeat()

    def _send_heartbeat(self) -> None:
        self._call_and_log_errors(self._renew_study_lease)
        self._call_and_log_errors(lambda: self.ledger.studies.release_lost_studies(may_be_alive))
        self._call_and_log_errors(lambda: self.ledger.workers.record_heartbeat(self.name, self.device, VERSION))

    def _renew_study_lease(self) -> None:
        study_id = self.current_study()
        if study_id is not None:
            self.ledger.attempts.record_heartbeats([], study_id, self.name)

    def _call_and_log_errors(self, send: Callable[[], None]) -> None:
        try:
            self.ledger.check_schema_unchanged()
            send()
        except SchemaChangedError:
            return  # the main thread reports it
        except BlnSearchError as error:
            _log.warning("%s", error)
