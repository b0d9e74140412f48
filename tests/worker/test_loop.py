"""A worker claims studies from the queue; an invalid study does not stop it."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select

from bln_search.core.errors import ClusterError, DataReadError
from bln_search.core.states import StopRequest, StudyState
from bln_search.execution.executors import local, process_health
from bln_search.storage.engine import read_session
from bln_search.storage.tables import AttemptRow
from bln_search.worker import loop
from bln_search.worker.loop import QueueWorker
from tests.worker.worker_study import worker_study


def accepted_earlier():
    """A study of an earlier version, which took mini-batches that are larger than a split."""
    study = worker_study("bad")
    return study.model_copy(update={"training": study.training.model_copy(update={"batch_size": 1000})})


def line(worker, study_id):
    return worker.ledger.study_lists.find_study_item(study_id)


@pytest.mark.slow
def test_waiting_studies_run_until_the_queue_is_empty(worker):
    ids = [worker.ledger.queue.submit_study(worker_study(name), "ada").study_id for name in ("a", "b")]
    worker.run_until_stopped(once=True)
    assert [line(worker, study_id).state for study_id in ids] == [StudyState.COMPLETE] * 2
    assert worker.ledger.workers.list_live_workers() == []  # it signed out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("invalid_study", "reason"),
    [
        (worker_study("bad", data="cifar10"), "--data or BLN_SEARCH_DATA"),
        (accepted_earlier(), "mini-batch"),
    ],
)
def test_invalid_study_fails_and_the_next_one_runs(worker, invalid_study, reason):
    invalid_id = worker.ledger.queue.submit_study(invalid_study, "ada").study_id
    valid_id = worker.ledger.queue.submit_study(worker_study("good"), "ada").study_id
    worker.run_until_stopped(once=True)
    assert line(worker, invalid_id).state == StudyState.FAILED
    assert reason in line(worker, invalid_id).reason
    assert line(worker, valid_id).state == StudyState.COMPLETE


class Broken:
    """An executor that fails with these errors in turn, and then works."""

    def __init__(self, executor, *errors):
        self.executor, self.errors = executor, list(errors)

    def run(self, *arguments):
        if self.errors:
            raise self.errors.pop(0)
        self.executor.run(*arguments)


def errors_seen(worker, study_id):
    events = worker.ledger.events.list_events(study_id)
    return [event.data["reason"] for event in events if event.kind == "worker_error"]


class TestUnexpectedErrors:
    @pytest.fixture(autouse=True)
    def _no_waiting(self, monkeypatch):
        monkeypatch.setattr(loop, "_RETRY_DELAY", 0.0)

    @pytest.mark.slow
    def test_first_error_releases_the_study_for_a_retry(self, worker):
        study_id = worker.ledger.queue.submit_study(worker_study("a"), "ada").study_id
        worker.executor = Broken(worker.executor, ZeroDivisionError("oh"))
        worker.run_until_stopped(once=True)
        assert line(worker, study_id).state == StudyState.COMPLETE
        assert errors_seen(worker, study_id) == ["ZeroDivisionError: oh"]

    @pytest.mark.slow
    def test_second_error_fails_the_study_not_the_worker(self, worker, caplog):
        failing_id = worker.ledger.queue.submit_study(worker_study("a"), "ada").study_id
        worker.executor = Broken(worker.executor, *[ZeroDivisionError("oh")] * 2)
        valid_id = worker.ledger.queue.submit_study(worker_study("b"), "ada").study_id
        worker.ledger.queue.update_study_metadata(failing_id, {"priority": 1})
        worker.run_until_stopped(once=True)
        assert line(worker, failing_id).state == StudyState.FAILED
        assert line(worker, failing_id).reason == "ZeroDivisionError: oh"
        assert line(worker, failing_id).trials == {"waiting": 1}
        assert line(worker, valid_id).state == StudyState.COMPLETE
        assert any(record.exc_info for record in caplog.records)

    @pytest.mark.slow
    def test_errors_of_all_workers_are_counted(self, worker):
        study_id = worker.ledger.queue.submit_study(worker_study("a"), "ada").study_id
        for _ in range(2):
            other_worker = QueueWorker(worker.ledger, worker.environment, Broken(None, ZeroDivisionError("oh")), cap=2)
            assert other_worker.ledger.queue.claim_next_study(other_worker.name, lambda _: True, 1) == study_id
            other_worker._run_study(study_id)
        assert line(worker, study_id).state == StudyState.FAILED

    @pytest.mark.slow
    def test_resuming_resets_the_error_count(self, worker):
        study_id = worker.ledger.queue.submit_study(worker_study("a"), "ada").study_id
        executor, worker.executor = worker.executor, Broken(None, *[ZeroDivisionError("oh")] * 2)
        worker.run_until_stopped(once=True)
        worker.ledger.queue.resume(study_id)
        worker.executor = Broken(executor, ZeroDivisionError("oh"))
        worker.run_until_stopped(once=True)
        assert line(worker, study_id).state == StudyState.COMPLETE

    @pytest.mark.slow
    def test_machine_errors_fail_the_study_at_the_fifth(self, worker):
        study_id = worker.ledger.queue.submit_study(worker_study("a"), "ada").study_id
        executor = worker.executor
        worker.executor = Broken(executor, *[EOFError("unexpected EOF")] * 4)
        worker.run_until_stopped(once=True)
        assert line(worker, study_id).state == StudyState.COMPLETE
        other_id = worker.ledger.queue.submit_study(worker_study("b"), "ada").study_id
        worker.executor = Broken(executor, *[OSError(24, "Too many open files")] * 5)
        worker.run_until_stopped(once=True)
        assert line(worker, other_id).state == StudyState.FAILED

    @pytest.mark.parametrize("failures", [1, 4, 5])
    def test_data_that_cannot_be_read_fails_the_study_at_the_fifth_time(self, worker, monkeypatch, failures):
        study_id = worker.ledger.queue.submit_study(worker_study("a"), "ada").study_id
        errors = iter([DataReadError("digits cannot be read on this machine: Stale file handle")] * failures)

        def check(*_arguments):
            for error in errors:
                raise error
            worker.stopping.set()
            return ()

        monkeypatch.setattr(loop, "run_preflight_checks", check)
        worker.executor = Broken(None, KeyboardInterrupt())
        worker.run_until_stopped(once=True)
        state = StudyState.FAILED if failures == 5 else StudyState.ACCEPTED
        assert line(worker, study_id).state == state
        assert len(errors_seen(worker, study_id)) == failures

    @pytest.mark.slow
    def test_error_keeps_a_requested_pause(self, worker):
        study_id = worker.ledger.queue.submit_study(worker_study("a"), "ada").study_id

        class PausedMeanwhile:
            def run(self, *_arguments):
                worker.ledger.queue.request_stop(study_id, StopRequest.PAUSE)
                raise ZeroDivisionError("oh")

        worker.executor = PausedMeanwhile()
        worker.run_until_stopped(once=True)
        assert line(worker, study_id).state == StudyState.PAUSED


@pytest.mark.slow
def test_lost_processes_fail_no_study(worker, monkeypatch):
    """One sick worker must not fail the queue."""
    monkeypatch.setattr(loop, "_RETRY_DELAY", 0.0)
    monkeypatch.setattr(process_health, "PAUSES", (0.0, 0.0))
    ids = [worker.ledger.queue.submit_study(worker_study(name), "ada").study_id for name in ("a", "b")]
    start, failures = local.CONTEXT.Process.start, iter(range(20))

    def start_sometimes(process):
        if next(failures, None) is not None:
            raise EOFError("unexpected EOF")
        start(process)

    monkeypatch.setattr(local.CONTEXT.Process, "start", start_sometimes)
    worker.run_until_stopped(once=True)
    assert [line(worker, study_id).state for study_id in ids] == [StudyState.COMPLETE] * 2
    with read_session(worker.ledger.database.engine) as session:
        states = session.execute(select(AttemptRow.state, func.count()).group_by(AttemptRow.state)).all()
    assert dict(map(tuple, states)) == {"failed": 20, "succeeded": 2}  # none is left live


def test_lost_cluster_releases_the_study_and_ends_the_worker(worker):
    class Gone:
        def run(self, *_arguments):
            raise ClusterError("gone")

    study_id = worker.ledger.queue.submit_study(worker_study("a"), "ada").study_id
    worker.executor = Gone()
    with pytest.raises(ClusterError, match="gone"):
        worker.run_until_stopped()
    assert line(worker, study_id).state == StudyState.ACCEPTED
    assert worker.ledger.workers.list_live_workers() == []


def test_study_of_another_worker_is_left_to_it(worker):
    study_id = worker.ledger.queue.submit_study(worker_study("a"), "ada").study_id

    class Overtaken:
        """Another worker takes the study while this one stands still."""

        def run(self, next_task, _report, pulse, _trials=1):
            next_task()
            with worker.ledger.database.engine.begin() as connection:
                connection.exec_driver_sql("UPDATE study SET runner = 'far/1/0'")
            while True:
                pulse([])

    worker.executor = Overtaken()
    claimed = worker.ledger.queue.claim_next_study(worker.name, lambda _: True, 1)
    assert claimed == study_id
    worker._run_study(study_id)
    assert line(worker, study_id).state == StudyState.RUNNING
