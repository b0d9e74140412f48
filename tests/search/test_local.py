"""Processes that carry trials out: which of them go on, and how many there are."""

from __future__ import annotations

import os
import time

import pytest

from bln_search.core.checkpoints import Folder
from bln_search.core.states import FailureClass
from bln_search.search import local
from bln_search.search.local import LocalExecutor
from bln_search.search.messages import Task, TaskFailed, Verdict
from bln_search.search.place import Place


def fails(connection, place):
    """A worker process whose every trial fails; odd ones by an accelerator, after which it would fail for ever."""
    while True:
        task = connection.recv()
        spoilt = task.token % 2 == 1
        connection.send(TaskFailed(FailureClass.INFRASTRUCTURE, str(os.getpid()), process_spoilt=spoilt))
        time.sleep(0.05)


@pytest.fixture
def place(tmp_path):
    return Place(data=tmp_path, cache=tmp_path, checkpoints=Folder(tmp_path / "checkpoints"))


def test_a_process_that_an_accelerator_spoilt_gets_no_further_trial(place, monkeypatch):
    monkeypatch.setattr(local, "_work", fails)
    tasks = iter([Task(token, None) for token in (2, 4, 1, 3, 6)])
    processes = []

    def report(_task, message):
        processes.append(message.reason)
        return Verdict.GO_ON

    LocalExecutor(place, 1).run(lambda: next(tasks, None), report, lambda _tokens: None)
    first, second, third, fourth, fifth = processes
    assert first == second == third  # 2 and 4 fail for another reason: the process goes on
    assert len({third, fourth, fifth}) == 3


def test_trials_of_several_threads_leave_each_other_their_cores(place, monkeypatch):
    monkeypatch.setattr(local, "cores", lambda: 8)
    for threads, side_by_side in ((1, 8), (2, 4), (4, 2), (16, 1)):
        executor = LocalExecutor(Place(**{**vars(place), "threads": threads}))
        executor.run(lambda: None, lambda *_: Verdict.GO_ON, lambda _tokens: None, trials=100)
        assert executor.workers == side_by_side
