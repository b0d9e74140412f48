"""Run trials in processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from bln_search.core.states import FailureClass
from bln_search.evaluation.chunking import release_freed_memory
from bln_search.execution.device_process import use_device_in_this_process
from bln_search.execution.devices import is_gpu, list_devices
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.base import NextTask, OnMessage, OnTick, task_failed_from_error
from bln_search.execution.executors.cpu_limits import choose_num_processes_per_device, num_available_cores
from bln_search.execution.executors.device_health import DeviceHealth
from bln_search.execution.executors.lost_processes import LostProcessCounter
from bln_search.execution.executors.process_server import CONTEXT, preload_modules
from bln_search.execution.gpu_memory import limit_gpu_memory
from bln_search.execution.messages import (
    TERMINAL_MESSAGES,
    EpochDone,
    Message,
    PruneDecision,
    TaskFailed,
    TrainingPruned,
    TrialTask,
)
from bln_search.execution.trial import run_trial_task

_READY = None
"""First message of a worker process; from then on its end is a failure of its trial."""

_FORKSERVER_LOST_EXIT_CODE = 255
"""Exit code that multiprocessing reports for a process whose forkserver ended before it."""

_TICK_SECONDS = 0.5
"""Largest interval between two calls of `on_tick`."""


@dataclass
class _WorkerProcess:
    process: BaseProcess
    connection: Connection
    device: str
    task: TrialTask | None = None
    ready: bool = False


class LocalExecutor:
    """Runs one trial at a time in each of `workers` processes, with `environment.threads` threads each.

    Args:
        environment: Folders, checkpoint store, device and threads. The processes are spread evenly over the GPUs of the
            device; those of one GPU may each use an equal part of its memory.
        workers: Number of processes; by default as many as the cores allow, or `trials_per_gpu` for each GPU.
        trials_per_gpu: Number of processes on each GPU.
    """

    def __init__(
        self, environment: ExecutionEnvironment, workers: int | None = None, *, trials_per_gpu: int = 1
    ) -> None:
        self.environment = environment
        self.requested_workers, self.trials_per_gpu = workers, trials_per_gpu
        self.workers = self.workers_per_device = 1
        self.health = DeviceHealth([environment.device])
        self.losses = LostProcessCounter()

    def run(self, next_task: NextTask, on_message: OnMessage, on_tick: OnTick, trials: int = 1) -> None:
        """Run every task of `next_task`. An exception of a callback ends the processes.

        A process that does not start, or is lost while it starts, is reported as an infrastructure failure that is not
        the trial's fault. A GPU that cannot be used, or on which trials fail while others work, gets no further trial.

        Raises:
            TrialProcessLostError: Several processes in a row were lost, or no device can be used, and no trial is
                running.
        """
        self.losses = LostProcessCounter()
        self.health = DeviceHealth(list_devices(self.environment.device))
        self.workers = self.num_parallel_trials(trials)
        self.workers_per_device = ceil(self.workers / len(self.health.devices))
        live: list[_WorkerProcess] = []
        try:
            while True:
                no_task_left = self._assign_tasks_to_idle_workers(live, next_task, on_message)
                busy = [worker for worker in live if worker.task is not None]
                if not busy:
                    self.losses.check_number_of_losses()
                    self.health.check_device_is_left()
                    if no_task_left:
                        return
                sources = [worker.connection for worker in busy] + [worker.process.sentinel for worker in busy]
                wait(sources, timeout=_TICK_SECONDS)
                for worker in busy:
                    self._receive_messages(worker, on_message)
                on_tick([worker.task.token for worker in live if worker.task is not None])
        finally:
            _end_worker_processes(live)

    def num_parallel_trials(self, trials: int) -> int:
        """Number of worker processes for this number of trials."""
        if self.requested_workers is not None:
            return self.requested_workers
        device = self.environment.device
        if is_gpu(device):
            return len(list_devices(device)) * self.trials_per_gpu
        side_by_side = max(1, num_available_cores() // self.environment.threads)
        return choose_num_processes_per_device(device, trials, side_by_side)

    def _assign_tasks_to_idle_workers(
        self, live: list[_WorkerProcess], next_task: NextTask, on_message: OnMessage
    ) -> bool:
        """Assign a trial to every process that can take one; returns whether `next_task` has none left."""
        usable = self.health.usable_devices
        _end_worker_processes([worker for worker in live if worker.task is None and worker.device not in usable])
        _remove_ended_workers(live)
        idle = [worker for worker in live if worker.task is None]
        while idle or self._may_start_process(live):
            task = next_task()
            if task is None:
                return True
            if task.alone:  # idle processes occupy memory that the trial needs
                _end_worker_processes(idle)
                _remove_ended_workers(live)
                idle = []
            try:
                worker = idle.pop() if idle else self._start_worker_process(live)
            except (OSError, EOFError, MemoryError) as error:
                reason = f"no process for the trial could be started: {type(error).__name__}: {error}"
                self._report_lost_process(
                    task, TaskFailed(FailureClass.INFRASTRUCTURE, reason, process_lost=True), on_message
                )
                continue
            worker.task = task
            with suppress(OSError):  # the process has just ended; _receive_messages reports it
                worker.connection.send(worker.task)
        return False

    def _may_start_process(self, live: list[_WorkerProcess]) -> bool:
        capacity = min(self.workers, self.workers_per_device * len(self.health.usable_devices))
        return len(live) < capacity and not self.losses.is_start_delayed and not self.losses.has_too_many_losses

    def _report_lost_process(self, task: TrialTask, message: TaskFailed, on_message: OnMessage) -> None:
        if not message.device_unusable:
            self.losses.record_loss(message.reason)
        on_message(task, message)

    def _start_worker_process(self, live: list[_WorkerProcess]) -> _WorkerProcess:
        """Start a process. Raises OSError, EOFError or MemoryError if the machine or the forkserver fails.

        multiprocessing replaces a forkserver that has ended at the next start.
        """
        preload_modules()
        driver_end, worker_end = CONTEXT.Pipe()
        occupied = [worker.device for worker in live]
        device = min(self.health.usable_devices, key=occupied.count)
        gpu_fraction = 1 / self.workers_per_device if is_gpu(device) else 1.0
        environment = replace(self.environment, device=device, gpu_fraction=gpu_fraction)
        process = _make_forkserver_process(target=_worker_main, args=(worker_end, environment), daemon=True)
        try:
            process.start()
        except BaseException:
            driver_end.close()
            raise
        finally:
            worker_end.close()
        worker = _WorkerProcess(process, driver_end, device)
        live.append(worker)
        return worker

    def _receive_messages(self, worker: _WorkerProcess, on_message: OnMessage) -> None:
        """Report every message of a busy worker, and its end."""
        while worker.task is not None:
            message = _find_next_message(worker)
            if message is None:
                return
            task = worker.task
            if isinstance(message, TERMINAL_MESSAGES):
                worker.task = None
                self._record_health(worker.device, message)
            if isinstance(message, TaskFailed) and message.process_unusable:
                worker.process.kill()
                worker.process.join()  # so that _remove_ended_workers sees it before the next trial
            if isinstance(message, TaskFailed) and message.process_lost:
                self._report_lost_process(task, message, on_message)
                return
            if isinstance(message, TERMINAL_MESSAGES):
                self.losses.reset_after_completed_trial()
            decision = on_message(task, message)
            if isinstance(message, EpochDone) and task.prunable:
                with suppress(OSError):  # the process has just ended; the next iteration reports it
                    worker.connection.send(decision)

    def _record_health(self, device: str, message: Message) -> None:
        """Record what the end of a trial tells about its device."""
        if not isinstance(message, TaskFailed):
            self.health.record_completed_trial(device)
        elif message.device_unusable:
            self.health.exclude_device(device, message.reason)
        elif message.failure is FailureClass.INFRASTRUCTURE and not message.process_lost:
            self.health.record_failure(device, message.reason)


def _find_next_message(worker: _WorkerProcess) -> Message | None:
    """The next message of a worker, None if there is none; a worker that ended yields a TaskFailed.

    A process that ended before it was ready, or that runs on without the forkserver that reports its end, is lost.
    """
    alive = worker.process.is_alive()  # checked first, so that every message before the end is received
    is_orphan = not alive and worker.process.exitcode == _FORKSERVER_LOST_EXIT_CODE
    try:
        while worker.connection.poll():
            message: Message | None = worker.connection.recv()
            worker.ready = True
            if message is not _READY:
                return message
    except (EOFError, OSError):
        worker.process.join()
        alive = is_orphan = False
    if alive:
        return None
    reason = f"the worker process ended with exit code {worker.process.exitcode}"
    if is_orphan:
        reason = "the forkserver ended, so the state of the trial's process is unknown; the process is abandoned"
    return TaskFailed(FailureClass.INFRASTRUCTURE, reason, process_lost=is_orphan or not worker.ready)


def _remove_ended_workers(live: list[_WorkerProcess]) -> None:
    """Remove ended processes. A process without its forkserver ends when its connection is closed."""
    for worker in list(live):
        if worker.task is None and not worker.process.is_alive():
            live.remove(worker)
            worker.connection.close()
            worker.process.close()


def _make_forkserver_process(**arguments: Any) -> BaseProcess:
    context: Any = CONTEXT
    process: BaseProcess = context.Process(**arguments)
    return process


def _end_worker_processes(live: list[_WorkerProcess]) -> None:
    """End every process: idle ones by closing their connection, busy ones by SIGKILL."""
    for worker in live:
        if worker.task is not None:
            worker.process.kill()
        worker.connection.close()
    for worker in live:
        worker.process.join()


def _worker_main(connection: Connection, environment: ExecutionEnvironment) -> None:
    """Main function of a worker process: receives tasks and sends messages until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the driver handles it
    threading.Thread(target=_exit_when_parent_ends, daemon=True).start()
    device = environment.device
    try:
        environment = replace(environment, device=use_device_in_this_process(device))
    except Exception as error:  # noqa: BLE001 - whatever the driver of the GPU reports
        with suppress(OSError):
            connection.send(_device_failed_from_error(device, error))
        return
    with suppress(OSError):  # the driver has just ended; recv() below raises EOFError
        connection.send(_READY)
    while True:
        try:
            task: TrialTask = connection.recv()
        except EOFError:
            return
        try:
            limit_gpu_memory(environment.gpu_fraction, alone=task.alone)
            _run_task_and_send_messages(task, environment, connection)
        except Exception as error:  # noqa: BLE001 - every failure becomes a message
            failure = task_failed_from_error(error)
            connection.send(replace(failure, reason=f"on {device}: {failure.reason}") if is_gpu(device) else failure)
        release_freed_memory()


def _device_failed_from_error(device: str, error: Exception) -> TaskFailed:
    """The failure of a process that cannot use its device; another process may only have occupied all its memory."""
    is_out_of_memory = task_failed_from_error(error).failure is FailureClass.OUT_OF_MEMORY
    reason = f"{device} cannot be used: {type(error).__name__}: {error}"
    return TaskFailed(FailureClass.INFRASTRUCTURE, reason, process_lost=True, device_unusable=not is_out_of_memory)


def _run_task_and_send_messages(task: TrialTask, environment: ExecutionEnvironment, connection: Connection) -> None:
    """Run one task; a prunable one waits for a PruneDecision after each epoch."""
    steps = run_trial_task(task, environment, connection.send)
    for record in steps:
        if record is not None and task.prunable and connection.recv() is PruneDecision.STOP:
            steps.close()
            connection.send(TrainingPruned(record.epoch))
            return


def _exit_when_parent_ends() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
