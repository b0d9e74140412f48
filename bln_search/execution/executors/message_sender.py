"""Sends the messages of trials from their process to the driver."""

from __future__ import annotations

import math
import time
from multiprocessing.connection import Connection

from bln_search.execution.messages import EpochDone, Message, PhaseProgress, TrialPhase

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
