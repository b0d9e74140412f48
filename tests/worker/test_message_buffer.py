"""Messages are written together, in their order, and none is lost when one is refused."""

from __future__ import annotations

import pytest

from bln_search.core.errors import LedgerError, StaleAttemptError
from bln_search.storage.trials.reports import DivergenceReport, EpochsReport, EvaluationReport
from bln_search.worker import message_buffer
from bln_search.worker.message_buffer import BufferedMessage, MessageBuffer
from tests.support.stream_records import make_stream_records


class Recorder:
    """Records transactions; refuses those with a stale token, fails where it is told to."""

    def __init__(self, stale=(), error=None, failing=()):
        self.stale, self.error, self.failing = set(stale), error, set(failing)
        self.transactions, self.shown = [], []

    def record(self, reports):
        if self.error is not None:
            raise self.error
        if any(report.token in self.stale for report in reports):
            raise StaleAttemptError("late")
        if any(report.token in self.failing for report in reports):
            raise LedgerError("gone")
        if reports:
            self.transactions.append([report.token for report in reports])

    def buffer(self):
        return MessageBuffer(self.record, lambda message: self.shown.append(message.message))


def epoch(token):
    return BufferedMessage(None, f"epoch {token}", EpochsReport(token, []))


def end(token):
    return BufferedMessage(None, f"end {token}", DivergenceReport(token, "x"))


def progress(token):
    return BufferedMessage(None, f"progress {token}", None)


def test_all_messages_are_written_in_one_transaction_and_shown_in_their_order():
    recorder = Recorder()
    buffer = recorder.buffer()
    for message in (epoch(1), end(1), progress(2), epoch(2)):
        buffer.add(message)
    assert recorder.transactions == []
    buffer.write()
    assert recorder.transactions == [[1, 1, 2]]
    assert recorder.shown == ["epoch 1", "end 1", "progress 2", "epoch 2"]
    assert not buffer
    assert not buffer.has_reports_besides_epochs


def test_reports_of_other_attempts_are_written_when_one_is_refused():
    recorder = Recorder(stale={2})
    buffer = recorder.buffer()
    for message in (end(1), end(2), end(3)):
        buffer.add(message)
    with pytest.raises(StaleAttemptError):
        buffer.write()
    assert recorder.transactions == [[1], [3]]
    assert recorder.shown == ["end 1", "end 3"]
    assert not buffer


def test_messages_after_an_error_are_kept_when_reports_are_written_one_by_one():
    recorder = Recorder(stale={1}, failing={3})
    buffer = recorder.buffer()
    for message in (end(1), end(2), end(3), end(4)):
        buffer.add(message)
    with pytest.raises(LedgerError):
        buffer.write()
    assert recorder.transactions == [[2]]
    recorder.failing.clear()
    buffer.write()
    assert recorder.transactions == [[2], [3, 4]]
    assert recorder.shown == ["end 2", "end 3", "end 4"]


def test_messages_are_kept_while_the_database_fails():
    recorder = Recorder(error=LedgerError("gone"))
    buffer = recorder.buffer()
    buffer.add(end(1))
    with pytest.raises(LedgerError):
        buffer.write()
    assert recorder.shown == []
    recorder.error = None
    buffer.add(end(2))
    buffer.write()
    assert recorder.transactions == [[1, 2]]


def test_results_are_written_at_the_next_opportunity_and_epochs_after_their_interval(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(message_buffer.time, "monotonic", lambda: now[0])
    recorder = Recorder()
    buffer = recorder.buffer()
    buffer.add(epoch(1))
    buffer.write_if_due()
    assert recorder.transactions == []
    buffer.add(end(2))
    buffer.write_if_due()
    assert recorder.transactions == [[1, 2]]
    buffer.add(epoch(3))
    now[0] += message_buffer.EPOCH_INTERVAL
    buffer.write_if_due()
    assert recorder.transactions[1:] == [[3]]


def test_a_report_with_streams_is_written_at_once_with_those_before_it():
    recorder = Recorder()
    buffer = recorder.buffer()
    buffer.add(end(1))
    buffer.add(BufferedMessage(None, "streams", EvaluationReport(2, (), streams=make_stream_records(0))))
    buffer.add(BufferedMessage(None, "none", EvaluationReport(3, ())))
    assert recorder.transactions == [[1, 2]]


def test_full_buffer_is_written_at_once():
    recorder = Recorder()
    buffer = recorder.buffer()
    for token in range(message_buffer._MAX_RESULTS):
        buffer.add(end(token))
    assert recorder.transactions == [list(range(message_buffer._MAX_RESULTS))]
