"""Signals that ask a process to stop, and the interrupt that names the signal.

SIGHUP comes when a terminal or a connection closes, SIGUSR1 from batch systems before the time limit of a job.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

STOP_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1") if hasattr(signal, name)
)
"""Those of this system."""

_PROCESS_GROUP_SIGNALS = tuple(number for number in STOP_SIGNALS if number is not signal.SIGTERM)
"""Signals that a terminal or a batch system sends to every process of a command."""


class StopSignalInterrupt(KeyboardInterrupt):
    """A signal asks the process to stop. `name` is that of the signal."""

    def __init__(self, number: int) -> None:
        self.name = signal.Signals(number).name
        super().__init__(self.name)


def raise_stop_signal_interrupt(number: int, _frame: FrameType | None) -> None:
    """Raise StopSignalInterrupt: the handler of a process that does nothing else about the signal."""
    raise StopSignalInterrupt(number)


@contextmanager
def interrupt_on_stop_signals() -> Iterator[None]:
    """Let stop signals interrupt the block, except those that the parent process ignores, as nohup does."""
    previous: dict[int, Any] = {}
    with suppress(ValueError):  # only the main thread handles signals
        for number in STOP_SIGNALS:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                previous[number] = signal.signal(number, raise_stop_signal_interrupt)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


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
            raises = previous[number] in (raise_stop_signal_interrupt, signal.default_int_handler)
            if callable(previous[number]) and not raises:  # one that raises is not called again
                signal.raise_signal(number)


def ignore_signals_to_process_group() -> None:
    """Ignore signals that reach the whole process group: the process that started this one handles them."""
    for number in _PROCESS_GROUP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def find_stop_signal_name(error: BaseException | None) -> str:
    """The signal behind an exception or one of those before it; SIGINT where none names another."""
    while error is not None:
        if isinstance(error, StopSignalInterrupt):
            return error.name
        error = error.__context__
    return signal.SIGINT.name
