"""Signals that ask a process to stop, and the interrupt that names the signal.

SIGHUP comes when a terminal or a connection closes, SIGUSR1 from batch systems before the time limit of a job.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
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
