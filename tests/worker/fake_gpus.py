"""Worker processes on GPUs that do not exist: each carries its trials out by waiting, and says on which GPU and when.

The learning rate of a trial is its duration in seconds: a process is told nothing but the specification.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

from bln_search.core.records import CheckpointRecord, EpochRecord
from bln_search.core.states import FailureClass
from bln_search.execution.executors import worker_process
from bln_search.execution.messages import EpochDone, EvaluationDone, TaskFailed, TrainingDone

NUM_GPUS = 8
BROKEN = "cuda:3"
"""The GPU that fails in some tests."""


def works(connection, environment):
    """The main function of a process on a healthy GPU."""
    _serve(connection, environment, lambda task: _carry_out(task, environment, connection))


def cannot_be_used(connection, environment):
    """The same; the process on one GPU cannot use it."""
    if environment.device == BROKEN:
        error = RuntimeError("CUDA error: unknown error")
        connection.send((None, worker_process.make_device_failed_message(BROKEN, error)))
    else:
        works(connection, environment)


def fails_in_trials(connection, environment):
    """The same; every trial on one GPU fails at once, and leaves the process unusable."""
    if environment.device != BROKEN:
        works(connection, environment)
        return
    failure = TaskFailed(FailureClass.INFRASTRUCTURE, "CUDA error: an illegal memory access", process_unusable=True)
    _serve(connection, environment, lambda task: connection.send((task.token, failure)))


def _serve(connection, _environment, run):
    threading.Thread(target=worker_process.exit_when_parent_ends, daemon=True).start()
    connection.send(None)
    with suppress(EOFError):
        while True:
            run(connection.recv())


def _carry_out(task, environment, connection):
    start = time.monotonic()
    for epoch in range(1, task.trial.epochs + 1):
        time.sleep(task.trial.training.learning_rate / task.trial.epochs)
        connection.send((task.token, EpochDone(EpochRecord(epoch, 1.0, 0.5, 1.0, 0.5, 0.1))))
    provenance = {"device": environment.device, "hardware": "fake", "training_peak_memory": 5}
    checkpoint = CheckpointRecord(task.trial.key, "0" * 64, task.trial.epochs, "FFFF", 1.0, provenance)
    connection.send((task.token, TrainingDone(checkpoint)))
    line = f"{environment.device} {start} {time.monotonic()} {task.trial.key}\n"
    with Path(environment.cache, "log").open("a", encoding="utf-8") as log:
        log.write(line)
    connection.send((task.token, EvaluationDone((), peak_memory=7)))


def read_log(environment):
    """The trials that were carried out: GPU, start, end (seconds of a monotonic clock) and key of each."""
    lines = Path(environment.cache, "log").read_text(encoding="utf-8").splitlines()
    return [(device, float(start), float(end), key) for device, start, end, key in (line.split() for line in lines)]
