"""Worker processes of the local executor: their number, loss and replacement."""

from __future__ import annotations

import multiprocessing.forkserver
import os
import threading
import time
from contextlib import suppress
from dataclasses import replace

import psutil
import pytest
import torch

from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import TrialProcessLostError
from bln_search.core.states import FailureClass
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors import local, process_health, process_server, worker_process
from bln_search.execution.executors.local import LocalExecutor
from bln_search.execution.messages import (
    PhaseProgress,
    PruneDecision,
    TaskFailed,
    TrainingDiverged,
    TrialPhase,
    TrialTask,
)


def fails(connection, environment):
    """A worker process whose every trial fails; odd ones by an accelerator, after which it would fail for ever."""
    while True:
        task = connection.recv()
        unusable = task.token % 2 == 1
        failure = TaskFailed(FailureClass.INFRASTRUCTURE, str(os.getpid()), process_unusable=unusable)
        connection.send((task.token, failure))
        time.sleep(0.05)


@pytest.fixture
def environment(tmp_path):
    return ExecutionEnvironment(data=tmp_path, cache=tmp_path, checkpoints=FolderStore(tmp_path / "checkpoints"))


@pytest.mark.slow
def test_process_with_accelerator_error_gets_no_further_trial(environment, monkeypatch):
    monkeypatch.setattr(local, "run_worker", fails)
    tasks = iter([TrialTask(token, None) for token in (2, 4, 1, 3, 6)])
    processes = []

    def report(_task, message):
        processes.append(message.reason)
        return PruneDecision.CONTINUE

    LocalExecutor(environment, 1).run(lambda: next(tasks, None), report, lambda _tokens: None)
    first, second, third, fourth, fifth = processes
    assert first == second == third  # 2 and 4 fail for another reason: the process goes on
    assert len({third, fourth, fifth}) == 3


def test_trials_with_several_threads_share_the_cores(environment, monkeypatch):
    monkeypatch.setattr(local, "num_available_cores", lambda: 8)
    for threads, side_by_side in ((1, 8), (2, 4), (4, 2), (16, 1)):
        executor = LocalExecutor(ExecutionEnvironment(**{**vars(environment), "threads": threads}))
        executor.run(lambda: None, lambda *_: PruneDecision.CONTINUE, lambda _tokens: None, trials=100)
        assert executor.workers == side_by_side


def names_its_device(connection, environment):
    """A worker process whose every trial fails with the device that it was to use, once all have begun."""
    while True:
        task = connection.recv()
        time.sleep(0.5)
        connection.send((task.token, TaskFailed(FailureClass.USER_ERROR, environment.device)))


@pytest.mark.slow
def test_processes_are_spread_over_all_gpus(environment, monkeypatch):
    monkeypatch.setattr(local, "run_worker", names_its_device)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    for workers, expected in ((None, 3 * [1]), (6, 3 * [2]), (2, [1, 1])):
        devices = []
        tasks = iter([TrialTask(token, None) for token in range(sum(expected))])

        def report(_task, message, devices=devices):
            devices.append(message.reason)
            return PruneDecision.CONTINUE

        LocalExecutor(replace(environment, device="cuda"), workers).run(
            lambda tasks=tasks: next(tasks, None), report, lambda _tokens: None
        )
        assert [devices.count(f"cuda:{index}") for index in range(len(expected))] == expected


def instantly(connection, _environment):
    """A worker process whose every trial diverges at once."""
    with suppress(EOFError):
        while True:
            task = connection.recv()
            connection.send((task.token, TrainingDiverged("scripted")))


def never(connection, _environment):
    """A worker process that says nothing of its trial."""
    threading.Thread(target=worker_process.exit_when_parent_ends, daemon=True).start()
    connection.send(None)
    connection.recv()
    time.sleep(600)


def forkserver_pid():
    return multiprocessing.forkserver._forkserver._forkserver_pid


class Trials:
    """Trials handed out until each has ended; one that was lost is handed out again."""

    def __init__(self, *tokens):
        self.waiting = [TrialTask(token, None) for token in tokens]
        self.messages = []

    def next_task(self):
        return self.waiting.pop(0) if self.waiting else None

    def report(self, task, message):
        self.messages.append(message)
        if isinstance(message, TaskFailed):
            self.waiting.append(task)
        return PruneDecision.CONTINUE

    @property
    def lost(self):
        return [message for message in self.messages if isinstance(message, TaskFailed) and message.process_lost]


@pytest.fixture
def short_pauses(monkeypatch):
    monkeypatch.setattr(process_health, "PAUSES", (0.01, 0.01))


@pytest.mark.parametrize("error", [EOFError("unexpected EOF"), BlockingIOError(11, "fork"), MemoryError()])
def test_failed_process_start_costs_no_attempt(environment, monkeypatch, short_pauses, error):
    monkeypatch.setattr(local, "run_worker", instantly)
    start, failing = local.CONTEXT.Process.start, iter([error, error])

    def start_sometimes(process):
        for failure in failing:
            raise failure
        start(process)

    monkeypatch.setattr(local.CONTEXT.Process, "start", start_sometimes)
    trials = Trials(1, 2)
    LocalExecutor(environment, 1).run(trials.next_task, trials.report, lambda _tokens: None)
    assert [type(message) for message in trials.messages if message not in trials.lost] == [TrainingDiverged] * 2
    assert len(trials.lost) == 2
    assert all(loss_reason.failure is FailureClass.INFRASTRUCTURE for loss_reason in trials.lost)


def test_repeated_start_failures_raise_process_loss_error(environment, monkeypatch, short_pauses):
    def refuse(_process):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(local.CONTEXT.Process, "start", refuse)
    trials = Trials(1, 2)
    with pytest.raises(TrialProcessLostError, match=r"3 times in a row.*Too many open files"):
        LocalExecutor(environment, 2).run(trials.next_task, trials.report, lambda _tokens: None)
    assert len(trials.lost) == 3


def hangs_in_odd_trials(connection, _environment):
    """A worker process that reports progress of an even trial for a while, and nothing of an odd one."""
    connection.send(worker_process.READY)
    with suppress(EOFError):
        while True:
            task = connection.recv()
            while task.token % 2:
                time.sleep(1)
            for _ in range(8):
                time.sleep(1)
                connection.send((task.token, PhaseProgress(TrialPhase.TRAINING, 1, 2)))
            connection.send((task.token, TrainingDiverged("scripted")))


@pytest.mark.slow
def test_trial_without_progress_is_ended_and_others_go_on(environment, monkeypatch):
    monkeypatch.setattr(local, "run_worker", hangs_in_odd_trials)
    tasks = iter([TrialTask(token, None) for token in (1, 2)])
    ends, processes = {}, set()

    def report(task, message):
        if not isinstance(message, PhaseProgress):
            ends[task.token] = message
        return PruneDecision.CONTINUE

    def watch(_tokens):
        processes.update(psutil.Process(forkserver_pid()).children())

    executor = LocalExecutor(replace(environment, trial_timeout=6.0), 1)
    executor.run(lambda: next(tasks, None), report, watch)
    assert isinstance(ends[2], TrainingDiverged)  # after 8 seconds with progress
    assert (ends[1].failure, ends[1].process_lost) == (FailureClass.INFRASTRUCTURE, False)
    assert "no progress for 6 seconds" in ends[1].reason
    assert "BLN_SEARCH_TRIAL_TIMEOUT" in ends[1].reason
    assert psutil.wait_procs(processes, 10)[1] == []


def never_starts(_connection, _environment):
    """A worker process that hangs before its first trial."""
    threading.Thread(target=worker_process.exit_when_parent_ends, daemon=True).start()
    time.sleep(1_000)


@pytest.mark.slow
def test_process_that_never_starts_costs_no_attempt(environment, monkeypatch, short_pauses):
    monkeypatch.setattr(local, "run_worker", never_starts)
    trials = Trials(1)

    def continue_after_first(task, message):
        monkeypatch.setattr(local, "run_worker", instantly)
        return trials.report(task, message)

    LocalExecutor(replace(environment, trial_timeout=6.0), 1).run(
        trials.next_task, continue_after_first, lambda _tokens: None
    )
    assert len(trials.lost) == 1
    assert isinstance(trials.messages[-1], TrainingDiverged)


@pytest.fixture
def forkserver_replaced():
    """A forkserver killed here has ended before the next test starts a process of its own."""
    yield
    multiprocessing.forkserver._forkserver._stop()


@pytest.mark.slow
@pytest.mark.usefixtures("forkserver_replaced")
@pytest.mark.skipif(not process_server.HAS_SERVER, reason="processes are not started by a forkserver here")
class TestForkserver:
    def test_killed_forkserver_is_replaced_at_the_next_start(self, environment, monkeypatch, short_pauses):
        monkeypatch.setattr(local, "run_worker", instantly)
        served = set()
        for _ in range(3):
            trials = Trials(1)
            LocalExecutor(environment, 1).run(trials.next_task, trials.report, lambda _tokens: None)
            assert isinstance(trials.messages[-1], TrainingDiverged)
            served.add(forkserver_pid())
            helper = psutil.Process(forkserver_pid())
            helper.kill()
        assert len(served) == 3

    def test_forkserver_killed_during_a_trial_costs_no_attempt(self, environment, monkeypatch, short_pauses):
        """No process is left behind."""
        monkeypatch.setattr(local, "run_worker", never)
        trials, orphans = Trials(1), []

        def kill_once(_tokens):
            helper = psutil.Process(forkserver_pid())
            if not orphans and helper.children():
                orphans.extend(helper.children())
                monkeypatch.setattr(local, "run_worker", instantly)
                helper.kill()

        LocalExecutor(environment, 1).run(trials.next_task, trials.report, kill_once)
        assert [loss_reason.reason for loss_reason in trials.lost if "forkserver" in loss_reason.reason] != []
        assert len(trials.messages) == len(trials.lost) + 1
        assert isinstance(trials.messages[-1], TrainingDiverged)
        assert psutil.wait_procs(orphans, 30)[1] == []


@pytest.mark.slow
def test_process_is_lost_before_it_is_ready_and_fails_after(environment, monkeypatch, short_pauses):
    trials = Trials(1)
    deaths = iter([dies_at_once, dies_in_its_trial, instantly])

    def die_next(task, message):
        monkeypatch.setattr(local, "run_worker", next(deaths, instantly))
        return trials.report(task, message)

    monkeypatch.setattr(local, "run_worker", next(deaths, instantly))
    LocalExecutor(environment, 1).run(trials.next_task, die_next, lambda _tokens: None)
    assert [getattr(message, "process_lost", None) for message in trials.messages] == [True, False, None]


def dies_at_once(_connection, _environment):
    os._exit(3)


def dies_in_its_trial(connection, _environment):
    connection.send(None)
    connection.recv()
    os._exit(3)


def tells_its_process(connection, _environment):
    """A worker process that says who it is, until its line is closed."""
    with suppress(EOFError):
        while True:
            task = connection.recv()
            connection.send((task.token, TaskFailed(FailureClass.USER_ERROR, str(os.getpid()))))


def test_idle_processes_end_before_a_trial_runs_alone(environment, monkeypatch):
    monkeypatch.setattr(local, "run_worker", tells_its_process)
    waiting = [TrialTask(1, None), TrialTask(2, None)]
    under_way, messages, before = {1, 2}, [], []

    def next_task():
        if waiting:
            return waiting.pop(0)
        if under_way or before:
            return None
        before.extend(messages)
        return TrialTask(3, None, alone=True)

    def report(task, message):
        messages.append(int(message.reason))
        under_way.discard(task.token)
        if task.alone:
            assert not any(psutil.pid_exists(pid) for pid in before)
        return PruneDecision.CONTINUE

    LocalExecutor(environment, 2).run(next_task, report, lambda _tokens: None)
    assert len(messages) == 3
    assert messages[-1] not in before
