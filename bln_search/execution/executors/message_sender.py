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
        self._epochs_sent_at = -math.inf

    def send(self, token: int, message: Message) -> None:
        """Send a message and those before it. An epoch waits for `send_epochs_if_due`, or for the next message."""
        self._unsent.append((token, message))
        is_training = isinstance(message, PhaseProgress) and message.phase is TrialPhase.TRAINING
        if not (isinstance(message, EpochDone) or is_training):
            self.send_all()

    def send_epochs_if_due(self) -> None:
        """Send the epochs that wait, unless this sent epochs less than the interval ago."""
        now = time.monotonic()
        if now - self._epochs_sent_at >= _EPOCHS_INTERVAL:
            self._epochs_sent_at = now
            self.send_all()

    def send_all(self) -> None:
        """Send the messages that wait."""
        unsent, self._unsent = self._unsent, []
        for message in unsent:
            self._connection.send(message)
