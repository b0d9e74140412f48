"""The process that runs trials for the local executor, and sends their messages to the driver."""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
import time
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from queue import SimpleQueue

from bln_search.core.states import FailureClass
from bln_search.core.stop_signals import ignore_signals_to_process_group
from bln_search.execution.device_process import use_device_in_this_process
from bln_search.execution.devices import is_gpu
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.base import make_task_failed_message
from bln_search.execution.executors.trial_group import TrialGroup
from bln_search.execution.gpu import limit_gpu_memory
from bln_search.execution.messages import (
    EpochDone,
    Message,
    PhaseProgress,
    PruneDecision,
    TaskFailed,
    TrialPhase,
    TrialTask,
)

FromWorker = tuple[int | None, Message]
"""Token of a trial and its message; None for a message about the process, which ends all of its trials."""

_EPOCHS_INTERVAL = 0.2
"""Least number of seconds between two times at which short epochs are sent, since each wakes the driver."""


class MessageSender:
    """Sends messages to the driver in their order, those of several short epochs together.

    Args:
        connection: To the driver.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._unsent: list[FromWorker] = []
        self._sent_at = self._epochs_sent_at = -math.inf

    def send(self, token: int, message: Message) -> None:
        """Send a message and those before it; a short epoch waits for later messages or `send_epochs_if_due`."""
        self._unsent.append((token, message))
        if not isinstance(message, EpochDone) and (not _may_wait(message) or self._has_passed_since(self._sent_at)):
            self.send_all()

    def send_epochs_if_due(self) -> None:
        """Send the epochs that wait, unless this sent some less than the interval ago; called after each epoch."""
        if self._has_passed_since(self._epochs_sent_at):
            self.send_all()
            self._epochs_sent_at = self._sent_at

    def send_all(self) -> None:
        """Send the messages that wait."""
        unsent, self._unsent, self._sent_at = self._unsent, [], time.monotonic()
        for message in unsent:
            self._connection.send(message)

    def _has_passed_since(self, sent_at: float) -> bool:
        return time.monotonic() - sent_at >= _EPOCHS_INTERVAL


def _may_wait(message: Message) -> bool:
    """Whether another epoch follows, which is the progress after each EpochDone but the last."""
    return isinstance(message, PhaseProgress) and message.phase is TrialPhase.TRAINING and message.done < message.total


READY = None
"""First object that a process sends; from then on its end is a failure of its trials."""

ToWorker = TrialTask | tuple[int, PruneDecision]
"""A trial, or the token of one with the decision that it waits for."""


def run_worker(connection: Connection, environment: ExecutionEnvironment) -> None:
    """Receive trials, run those that are here in parallel and send their messages, until the connection is closed."""
    ignore_signals_to_process_group()  # the driver handles them
    threading.Thread(target=exit_when_parent_ends, daemon=True).start()
    device = environment.device
    try:
        environment = replace(environment, device=use_device_in_this_process(device))
    except Exception as error:  # noqa: BLE001 - whatever the driver of the GPU reports
        with suppress(OSError):
            connection.send((None, make_device_failed_message(device, error)))
        return
    with suppress(OSError):  # the driver has just ended; recv() raises EOFError
        connection.send(READY)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the driver has ended
        _run_trials(connection, environment, device)


def _run_trials(connection: Connection, environment: ExecutionEnvironment, device: str) -> None:
    """Run trials; what the driver sends is read between their epochs."""
    sender = MessageSender(connection)

    def send(task: TrialTask, message: Message) -> None:
        sender.send(task.token, _name_gpu(message, device) if isinstance(message, TaskFailed) else message)

    inbox = _Inbox(connection)
    with TrialGroup(environment, send) as group:
        while True:
            while not len(group) or group.is_awaiting_prune_decision or not inbox.is_empty:
                sender.send_all()
                received = inbox.receive()
                if isinstance(received, TrialTask):
                    limit_gpu_memory(environment.gpu_fraction, alone=received.alone)
                    group.add(received)
                else:
                    group.apply_prune_decision(*received)
                group.advance_trials_to_next_epoch()
            group.train_fusible_pending_epochs()
            group.advance_trials_to_next_epoch()
            sender.send_epochs_if_due()


class _Inbox:
    """Receives what the driver sends in a thread, so that the driver never waits for this process to read.

    Args:
        connection: To the driver.
    """

    def __init__(self, connection: Connection) -> None:
        self._received: SimpleQueue[ToWorker | None] = SimpleQueue()
        threading.Thread(target=self._read_until_closed, args=(connection,), daemon=True).start()

    @property
    def is_empty(self) -> bool:
        return self._received.empty()

    def receive(self) -> ToWorker:
        """Wait for the next object. Raises EOFError where the connection is closed."""
        received = self._received.get()
        if received is None:
            raise EOFError
        return received

    def _read_until_closed(self, connection: Connection) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._received.put(connection.recv())
        self._received.put(None)


def _name_gpu(failure: TaskFailed, device: str) -> TaskFailed:
    return replace(failure, reason=f"on {device}: {failure.reason}") if is_gpu(device) else failure


def make_device_failed_message(device: str, error: Exception) -> TaskFailed:
    """The failure of a process that cannot use its device; another process may only have occupied all its memory."""
    is_out_of_memory = make_task_failed_message(error).failure is FailureClass.OUT_OF_MEMORY
    reason = f"{device} cannot be used: {type(error).__name__}: {error}"
    return TaskFailed(FailureClass.INFRASTRUCTURE, reason, process_lost=True, device_unusable=not is_out_of_memory)


def exit_when_parent_ends() -> None:
    """End this process when its parent ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
