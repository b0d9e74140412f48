"""Trials carried out by processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from bln_search.core.states import FailureClass
from bln_search.search.executor import NextTask, Pulse, Report, failed
from bln_search.search.messages import ENDS, EpochDone, Message, Task, TaskFailed, TrainingPruned, Verdict
from bln_search.search.place import Place
from bln_search.search.trial import run_task
from bln_search.search.workers import choose_workers, cores

_METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
_CONTEXT = multiprocessing.get_context(_METHOD)
_PULSE = 0.5
"""Seconds between calls of `pulse` at most."""


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    task: Task | None = None


class LocalExecutor:
    """Keeps `workers` processes busy, each with one trial at a time and `place.threads` threads.

    workers: by default as many as the cores carry.
    """

    def __init__(self, place: Place, workers: int | None = None) -> None:
        self.place = place
        self.wanted = workers
        self.workers = 1

    def run(self, next_task: NextTask, report: Report, pulse: Pulse, trials: int = 1) -> None:
        """Carry out every task that `next_task` gives. Leaving by an exception ends the processes."""
        room = max(1, cores() // self.place.threads)
        self.workers = self.wanted or choose_workers(self.place.device, trials, room)
        live: list[_Worker] = []
        try:
            while True:
                self._fill(live, next_task)
                busy = [worker for worker in live if worker.task is not None]
                if not busy:
                    return
                sources = [worker.connection for worker in busy] + [worker.process.sentinel for worker in busy]
                wait(sources, timeout=_PULSE)
                for worker in busy:
                    self._hear(worker, report)
                pulse([worker.task.token for worker in live if worker.task is not None])
        finally:
            _end(live)

    def _fill(self, live: list[_Worker], next_task: NextTask) -> None:
        live[:] = [worker for worker in live if worker.task is not None or worker.process.is_alive()]
        idle = [worker for worker in live if worker.task is None]
        while idle or len(live) < self.workers:
            task = next_task()
            if task is None:
                return
            worker = idle.pop() if idle else self._start(live)
            worker.task = task
            with suppress(OSError):  # it has just died; that is heard next
                worker.connection.send(worker.task)

    def _start(self, live: list[_Worker]) -> _Worker:
        if _METHOD == "forkserver":  # one process loads torch, the others come from it
            _CONTEXT.set_forkserver_preload(["bln_search.search.trial"])
        here, there = _CONTEXT.Pipe()
        process = _make_process(target=_work, args=(there, self.place), daemon=True)
        process.start()
        there.close()
        worker = _Worker(process, here)
        live.append(worker)
        return worker

    @staticmethod
    def _hear(worker: _Worker, report: Report) -> None:
        """Report everything a busy worker has said, its death included."""
        while worker.task is not None:
            message = _next_message(worker)
            if message is None:
                return
            task = worker.task
            if isinstance(message, ENDS):
                worker.task = None
            if isinstance(message, TaskFailed) and message.process_spoilt:
                worker.process.kill()
                worker.process.join()  # the next trial finds it gone
            verdict = report(task, message)
            if isinstance(message, EpochDone) and task.prunable:
                with suppress(OSError):  # it has just died; that is heard next
                    worker.connection.send(verdict)


def _next_message(worker: _Worker) -> Message | None:
    """What the worker said next, None where it has said nothing; a dead worker has failed."""
    try:
        if worker.connection.poll():
            message: Message = worker.connection.recv()
            return message
    except (EOFError, OSError):
        worker.process.join()
    if worker.process.is_alive():
        return None
    reason = f"the worker process ended with exit code {worker.process.exitcode}"
    return TaskFailed(FailureClass.INFRASTRUCTURE, reason)


def _make_process(**arguments: Any) -> BaseProcess:
    maker: Any = _CONTEXT
    process: BaseProcess = maker.Process(**arguments)
    return process


def _end(live: list[_Worker]) -> None:
    """End every process: idle ones by closing their line, busy ones at once."""
    for worker in live:
        if worker.task is not None:
            worker.process.kill()
        worker.connection.close()
    for worker in live:
        worker.process.join()


def _work(connection: Connection, place: Place) -> None:
    """The life of a worker process: tasks in, messages out, until the line is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the driver decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            task: Task = connection.recv()
        except EOFError:
            return
        try:
            _carry_out(task, place, connection)
        except Exception as error:  # noqa: BLE001 - whatever happened becomes a message
            connection.send(failed(error))


def _carry_out(task: Task, place: Place, connection: Connection) -> None:
    """One task; a prunable one waits after each epoch for the verdict."""
    steps = run_task(task, place, connection.send)
    for record in steps:
        if record is not None and task.prunable and connection.recv() is Verdict.STOP:
            steps.close()
            connection.send(TrainingPruned(record.epoch))
            return


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
