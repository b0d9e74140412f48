"""A task that a thread of the service repeats until the service stops."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bln_search.core.errors import BlnSearchError

_log = logging.getLogger(__name__)
_JOIN_TIMEOUT = 5.0
"""Seconds for the last call, in which a database may hang."""


@contextmanager
def repeating(task: Callable[[], bool], interval: float, name: str, failure: str) -> Iterator[None]:
    """Repeat a task inside the block. An outage is logged once, however many calls fail.

    Args:
        task: Returns whether there is more to do, so that the next call follows at once.
        interval: Seconds until the next call otherwise.
        name: Name of the thread.
        failure: What a failed call means, for the log.
    """
    ended = threading.Event()

    def repeat_until_ended() -> None:
        is_failing, has_more = False, False
        while not ended.wait(0 if has_more else interval):
            try:
                has_more = task()
                is_failing = False
            except BlnSearchError as error:
                if not is_failing:
                    _log.warning("%s: %s", failure, error)
                is_failing, has_more = True, False
            except Exception:  # noqa: BLE001 - the next call may succeed
                if not is_failing:
                    _log.exception("%s", failure)
                is_failing, has_more = True, False

    thread = threading.Thread(target=repeat_until_ended, daemon=True, name=name)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_JOIN_TIMEOUT)
