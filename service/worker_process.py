"""A worker process that the service starts and restarts."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time

from bln_search.settings import Settings

_log = logging.getLogger(__name__)
STOP_TIMEOUT = 30.0
"""Seconds that a worker has to release its study after SIGTERM."""

_OF_WEBHOOK = "BLN_SEARCH_WEBHOOK_"
_MAX_RESTART_DELAY = 30.0
"""Seconds. The delay doubles with each restart of a worker that ran for less than this time."""


def make_worker_environment_variables(settings: Settings) -> dict[str, str]:
    """Return the environment of the worker: the same database, without the webhook, which plugins need not see.

    A password that is in a file is not put into the environment; the worker reads the file itself.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.upper().startswith(_OF_WEBHOOK)}
    return inherited if settings.database is None else {**inherited, "BLN_SEARCH_DATABASE": settings.database}


class RestartedWorkerProcess:
    """A worker that is restarted when it dies, and that ends when this process ends, for whatever reason."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self.process = self._start_process()
        self._thread = threading.Thread(target=self._restart_when_dead, daemon=True, name="worker process")
        self._thread.start()

    def _start_process(self) -> subprocess.Popen[bytes]:
        program = "from bln_search.cli.main import main; main()"
        return subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, "-c", program, "worker", "--with-parent"],
            stdin=subprocess.PIPE,  # it closes with this process, which ends the worker
            env=make_worker_environment_variables(self.settings),
        )

    def _restart_when_dead(self) -> None:
        delay = 1.0
        while True:
            started = time.monotonic()
            code = self.process.wait()
            if self._stopping.is_set():
                return
            ran_long = time.monotonic() - started > _MAX_RESTART_DELAY
            delay = 1.0 if ran_long else min(2 * delay, _MAX_RESTART_DELAY)
            _log.error("the worker ended with code %d; it is restarted in %.0f seconds", code, delay)
            if self._stopping.wait(delay):
                return
            with self._lock:
                if self._stopping.is_set():
                    return
                self.process = self._start_process()

    def stop(self) -> None:
        """Terminate the worker; it releases its study first. Kill it after `STOP_TIMEOUT`."""
        with self._lock:
            self._stopping.set()
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._thread.join()
        if self.process.stdin is not None:
            self.process.stdin.close()
