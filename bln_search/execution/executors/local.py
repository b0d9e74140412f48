"""Trials carried out by processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from bln_search.core.states import FailureClass
from bln_search.evaluation.memory import give_back_memory
from bln_search.execution.environment import Place
from bln_search.execution.executors.base import NextTask, Pulse, Report, failed
from bln_search.execution.executors.cpu_limits import choose_workers, cores, gpus_of
from bln_search.execution.executors.process_losses import ProcessLosses
from bln_search.execution.messages import ENDS, EpochDone, Message, Task, TaskFailed, TrainingPruned, Verdict
from bln_search.execution.trial import run_task

_METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
_CONTEXT = multiprocessing.get_context(_METHOD)
_READY = None
"""What a worker process sends first: from then on, its end is that of the trial it carries out."""

_HELPER_LOST = 255
"""Exit code that multiprocessing reports for a process whose forkserver ended before it."""

_PULSE = 0.5
"""Seconds between calls of `pulse` at most."""


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    device: str
    task: Task | None = None
    ready: bool = False


class LocalExecutor:
    """Keeps `workers` processes busy, each with one trial at a time and `place.threads` threads.

    workers: by default as many as the cores carry, or one for each GPU. Where the place's device is `cuda`, processes
    are spread evenly over all GPUs.
    """

    def __init__(self, place: Place, workers: int | None = None) -> None:
        self.place = place
        self.wanted = workers
        self.workers = 1
        self.devices = [place.device]
        self.losses = ProcessLosses()

    def run(self, next_task: NextTask, report: Report, pulse: Pulse, trials: int = 1) -> None:
        """Carry out every task that `next_task` gives. Leaving by an exception ends the processes.

        A process that cannot be started, or is lost as it starts, is reported as an infrastructure failure that is not
        the trial's. Raises ProcessLossError where that happens several times in a row and no other trial is under way.
        """
        self.losses = ProcessLosses()
        room = max(1, cores() // self.place.threads)
        self.devices = gpus_of(self.place.device)
        self.workers = self.wanted or len(self.devices) * choose_workers(self.place.device, trials, room)
        live: list[_Worker] = []
        try:
            while True:
                none_left = self._fill(live, next_task, report)
                busy = [worker for worker in live if worker.task is not None]
                if not busy:
                    self.losses.check()
                    if none_left:
                        return
                sources = [worker.connection for worker in busy] + [worker.process.sentinel for worker in busy]
                wait(sources, timeout=_PULSE)
                for worker in busy:
                    self._hear(worker, report)
                pulse([worker.task.token for worker in live if worker.task is not None])
        finally:
            _end(live)

    def _fill(self, live: list[_Worker], next_task: NextTask, report: Report) -> bool:
        """Give a trial to every process that may have one; returns whether `next_task` has none left."""
        _forget_ended(live)
        idle = [worker for worker in live if worker.task is None]
        while idle or (len(live) < self.workers and not self.losses.pausing and not self.losses.exhausted):
            task = next_task()
            if task is None:
                return True
            if task.alone:  # what idle processes hold of the memory is in its way
                _end(idle)
                _forget_ended(live)
                idle = []
            try:
                worker = idle.pop() if idle else self._start(live)
            except (OSError, EOFError, MemoryError) as error:
                reason = f"no process for the trial could be started: {type(error).__name__}: {error}"
                self._lost(task, TaskFailed(FailureClass.INFRASTRUCTURE, reason, process_lost=True), report)
                continue
            worker.task = task
            with suppress(OSError):  # it has just died; that is heard next
                worker.connection.send(worker.task)
        return False

    def _lost(self, task: Task, message: TaskFailed, report: Report) -> None:
        self.losses.record(message.reason)
        report(task, message)

    def _start(self, live: list[_Worker]) -> _Worker:
        """A new process. Raises OSError, EOFError or MemoryError where the machine, or the forkserver, gives way.

        A forkserver that has ended is replaced by multiprocessing at the next start.
        """
        if _METHOD == "forkserver":  # one process loads torch, the others come from it
            _CONTEXT.set_forkserver_preload(["bln_search.execution.trial"])
        here, there = _CONTEXT.Pipe()
        taken = [worker.device for worker in live]
        device = min(self.devices, key=taken.count)
        process = _make_process(target=_work, args=(there, replace(self.place, device=device)), daemon=True)
        try:
            process.start()
        except BaseException:
            here.close()
            raise
        finally:
            there.close()
        worker = _Worker(process, here, device)
        live.append(worker)
        return worker

    def _hear(self, worker: _Worker, report: Report) -> None:
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
            if isinstance(message, TaskFailed) and message.process_lost:
                self._lost(task, message, report)
                return
            if isinstance(message, ENDS):
                self.losses.reset()
            verdict = report(task, message)
            if isinstance(message, EpochDone) and task.prunable:
                with suppress(OSError):  # it has just died; that is heard next
                    worker.connection.send(verdict)


def _next_message(worker: _Worker) -> Message | None:
    """What the worker said next, None where it has said nothing; a dead worker has failed.

    A process that ended before it was ready, or lives on without the forkserver that tells of its end, is lost.
    """
    alive = worker.process.is_alive()  # asked first: all that it said before its end is heard
    orphan = not alive and worker.process.exitcode == _HELPER_LOST
    try:
        while worker.connection.poll():
            message: Message | None = worker.connection.recv()
            worker.ready = True
            if message is not _READY:
                return message
    except (EOFError, OSError):
        worker.process.join()
        alive = orphan = False
    if alive:
        return None
    reason = f"the worker process ended with exit code {worker.process.exitcode}"
    if orphan:
        reason = "the helper process that starts worker processes ended, and the trial's process is given up with it"
    return TaskFailed(FailureClass.INFRASTRUCTURE, reason, process_lost=orphan or not worker.ready)


def _forget_ended(live: list[_Worker]) -> None:
    """Drop the processes that have ended. One that lives on without its forkserver ends when its lines are closed."""
    for worker in list(live):
        if worker.task is None and not worker.process.is_alive():
            live.remove(worker)
            worker.connection.close()
            worker.process.close()


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
    with suppress(OSError):  # the driver has just died; that is heard next
        connection.send(_READY)
    while True:
        try:
            task: Task = connection.recv()
        except EOFError:
            return
        try:
            _carry_out(task, place, connection)
        except Exception as error:  # noqa: BLE001 - whatever happened becomes a message
            connection.send(failed(error))
        give_back_memory()


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
