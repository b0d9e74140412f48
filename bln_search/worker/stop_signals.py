"""A stop signal ends a run or a worker between two steps; a second signal ends the process at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from bln_search.core.stop_signals import STOP_SIGNALS, StopSignalInterrupt, raise_stop_signal_interrupt

_RAISING_HANDLERS = (raise_stop_signal_interrupt, signal.default_int_handler)
"""Handlers that end the caller by an exception: they are not called again for a signal that this module handled."""


@contextmanager
def call_stop_on_signal(is_stopping: Callable[[], bool], stop: Callable[[int], None]) -> Iterator[None]:
    """Call `stop` on the first signal; raise StopSignalInterrupt on the second.

    When the block ends after a signal, it is raised again for the previous handler, because a caller that runs several
    studies must stop, too. Outside the main thread, which alone can handle signals, nothing is changed.

    Args:
        is_stopping: Whether a signal was received before.
        stop: Records the number of the signal.
    """
    received: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        if is_stopping():
            raise StopSignalInterrupt(number)
        received.append(number)
        stop(number)

    previous: dict[int, Any] = {}
    try:
        for number in STOP_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # the parent process does not want it to stop
                previous[number] = signal.signal(number, handle)
    except ValueError:  # not the main thread
        pass
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for number in received:
            if callable(previous[number]) and previous[number] not in _RAISING_HANDLERS:
                signal.raise_signal(number)
