"""What trials print reaches standard error, up to a limit for each trial."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors import local
from bln_search.execution.executors.local import LocalExecutor
from bln_search.execution.executors.process_output import MAX_OUTPUT_BYTES
from bln_search.execution.messages import PruneDecision, TrainingDiverged, TrialTask


def prints(connection, _environment):
    """A worker process whose trial 1 prints a line in every way, trial 2 twenty megabytes, and trial 3 a line."""
    with suppress(EOFError):
        while True:
            task = connection.recv()
            if task.token == 1:
                print("by print")
                print("to standard error", file=sys.stderr)
                sys.stdout.flush()
                os.write(1, b"by the system\n")
                subprocess.run([sys.executable, "-c", "print('by a child')"], check=True)
            elif task.token == 2:
                for _ in range(20):
                    print("x" * 1_000_000)
            else:
                print("by the last trial")
            sys.stdout.flush()
            connection.send((task.token, TrainingDiverged("scripted")))


@pytest.fixture
def environment(tmp_path):
    return ExecutionEnvironment(data=tmp_path, cache=tmp_path, checkpoints=FolderStore(tmp_path / "checkpoints"))


def test_output_is_forwarded_up_to_the_limit_of_each_trial(environment, monkeypatch, capfd):
    monkeypatch.setattr(local, "run_worker", prints)
    tasks = iter([TrialTask(token, None) for token in (1, 2, 3)])
    executor = LocalExecutor(environment, 1)
    executor.run(lambda: next(tasks, None), lambda *_: PruneDecision.CONTINUE, lambda _tokens: None)
    out, err = capfd.readouterr()
    assert out == ""
    lines = err.splitlines()
    for line in ("by print", "to standard error", "by the system", "by a child", "by the last trial"):
        assert line in lines
    assert err.count("the rest is left out") == 1
    assert MAX_OUTPUT_BYTES <= err.count("x") < MAX_OUTPUT_BYTES + 300_000


def crashes(connection, _environment):
    """A worker process that says why it crashes."""
    connection.recv()
    os.write(2, b"why it crashes\n")
    os.abort()


@pytest.mark.slow
def test_last_words_of_a_crashed_process_are_forwarded(environment, monkeypatch, capfd):
    monkeypatch.setattr(local, "run_worker", crashes)
    tasks = iter([TrialTask(1, None)])
    executor = LocalExecutor(environment, 1)
    executor.run(lambda: next(tasks, None), lambda *_: PruneDecision.CONTINUE, lambda _tokens: None)
    assert "why it crashes" in capfd.readouterr().err
