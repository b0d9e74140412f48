"""SIGINT and SIGTERM stop a run or a worker between two steps; a second signal ends the process at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def set_event_on_signal(should_stop: threading.Event) -> Iterator[None]:
    """Set `should_stop` on the first signal; raise KeyboardInterrupt on the second."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        if should_stop.is_set():
            raise KeyboardInterrupt
        should_stop.set()

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def call_stop_on_signal(is_stopping: Callable[[], bool], stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on the first signal; raise KeyboardInterrupt on the second.

    When the block ends after a SIGTERM, the signal is raised again for the previous handler, because a caller that runs
    several studies must stop, too. Outside the main thread, which alone can handle signals, nothing is changed.

    Args:
        is_stopping: Whether a signal was received before.
        stop: Records the signal.
    """

    def handle(_number: int, _frame: object) -> None:
        if is_stopping():
            raise KeyboardInterrupt
        stop()

    previous: dict[signal.Signals, Any] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # the parent process does not want it to stop
                previous[number] = signal.signal(number, handle)
    except ValueError:  # not the main thread
        pass
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        if is_stopping() and callable(previous.get(signal.SIGTERM)):
            signal.raise_signal(signal.SIGTERM)
