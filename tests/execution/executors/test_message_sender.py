"""Messages reach the driver in their order, those of short epochs together, and none waits for a long epoch."""

from __future__ import annotations

import pytest

from bln_search.core.records import EpochRecord
from bln_search.execution.executors import worker_process
from bln_search.execution.executors.worker_process import MessageSender
from bln_search.execution.messages import EpochDone, EvaluationDone, PhaseProgress, TaskFailed, TrialPhase

EPOCH = EpochDone(EpochRecord(1, 1.0, 0.5, 1.0, 0.5, 0.1))
TRAINING, LAST = (PhaseProgress(TrialPhase.TRAINING, epoch, 2) for epoch in (1, 2))
POPULATION = PhaseProgress(TrialPhase.POPULATION, 0, 1)
EVALUATION = PhaseProgress(TrialPhase.EVALUATION, 1, 2)


class RecordingConnection:
    def __init__(self):
        self.sent = []

    def send(self, message):
        self.sent.append(message)


@pytest.fixture
def connection():
    return RecordingConnection()


@pytest.fixture
def clock(monkeypatch):
    """Seconds that `time.monotonic` returns."""
    now = [100.0]
    monkeypatch.setattr(worker_process.time, "monotonic", lambda: now[0])
    return now


def send_epoch(sender, token=1, progress=TRAINING):
    sender.send(token, EPOCH)
    sender.send(token, progress)


def test_short_epochs_are_sent_together(connection, clock):
    sender = MessageSender(connection)
    counts = []
    for _ in range(50):
        clock[0] += 0.02
        send_epoch(sender)
        sender.send_epochs_if_due()
        counts.append(len(connection.sent))
    assert len(set(counts)) == 5
    assert counts[-1] >= 2 * 40


def test_long_epochs_are_sent_at_once(connection, clock):
    """Those of several trials of a program too, and beside the end of another trial."""
    sender = MessageSender(connection)
    for count in range(1, 4):
        clock[0] += 0.5
        send_epoch(sender, 1)
        sender.send(2, EvaluationDone(()))
        send_epoch(sender, 3)
        sender.send_epochs_if_due()
        assert len(connection.sent) == 5 * count


def test_the_last_epoch_does_not_wait_for_what_follows_training(connection, clock):
    sender = MessageSender(connection)
    send_epoch(sender)
    send_epoch(sender, progress=LAST)
    assert len(connection.sent) == 4


@pytest.mark.parametrize(
    "message",
    [POPULATION, EVALUATION, EvaluationDone(()), TaskFailed("user_error", "x")],
    ids=lambda m: type(m).__name__,
)
def test_any_other_message_is_sent_at_once_after_the_epochs_before(connection, clock, message):
    sender = MessageSender(connection)
    sender.send_epochs_if_due()
    send_epoch(sender)
    sender.send_epochs_if_due()
    assert connection.sent == []
    sender.send(1, message)
    assert connection.sent == [(1, EPOCH), (1, TRAINING), (1, message)]
