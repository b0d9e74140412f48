"""Run trials in processes of this machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import ceil
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from bln_search.core.states import FailureClass
from bln_search.execution.devices import is_gpu, list_devices_of_name
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.base import NextTask, OnMessage, OnTick
from bln_search.execution.executors.cpu_limits import choose_num_processes_per_device, num_available_cores
from bln_search.execution.executors.process_health import DeviceHealth, LostProcessCounter, ProgressClock
from bln_search.execution.executors.process_output import ProcessOutput, print_to_connection
from bln_search.execution.executors.process_server import CONTEXT, register_modules_for_preloading
from bln_search.execution.executors.worker_process import READY, FromWorker, run_worker
from bln_search.execution.messages import TERMINAL_MESSAGES, EpochDone, Message, TaskFailed, TrialTask
from bln_search.training.stacked.key import may_be_fused_with_others

_FORKSERVER_LOST_EXIT_CODE = 255
"""Exit code that multiprocessing reports for a process whose forkserver ended before it."""

_FUSED_TRIALS_ON_CPU, _FUSED_TRIALS_ON_GPU = 8, 64
"""Trials of a process that are trained as one program. More are hardly faster: 1.2 times on an H100 with 256."""

_INFORMING_TRIALS = 8
"""Trials of a process at the same time whose results inform a sampler, unless the user says otherwise."""

_KILL_SECONDS = 10.0
"""Longest time to wait for the end of a killed process."""

_TICK_SECONDS = 0.5
"""Largest interval between two calls of `on_tick`."""


@dataclass(eq=False)
class _WorkerProcess:
    """A worker process.

    Attributes:
        process: The process.
        connection: To the process.
        device: That it uses.
        output: What it prints.
        tasks: The trials that it runs, by token.
        ready: It has started; from then on its end is a failure of its trials.
        is_unusable: It was killed, and gets no further trial even if it does not end.
    """

    process: BaseProcess
    connection: Connection
    device: str
    output: ProcessOutput
    tasks: dict[int, TrialTask] = field(default_factory=dict)
    ready: bool = False
    is_unusable: bool = False


class LocalExecutor:
    """Runs one trial at a time in each of `workers` processes, with `environment.threads` threads each.

    With `trials_per_process` each process runs as many at the same time, and trains their epochs as one program where
    that is possible. After a process with several trials has ended unexpectedly, each process runs one, because one of
    them may have been the reason.

    Args:
        environment: Folders, checkpoint store, device and threads. The processes are spread evenly over the GPUs of the
            device; those of one GPU may each use an equal part of its memory.
        workers: Number of processes; by default as many as the cores allow, or `trials_per_gpu` for each GPU.
        trials_per_gpu: Number of processes on each GPU.
        trials_per_process: Largest number of trials in each process.
        informing_trials_per_process: Largest number of those whose results inform a sampler.
    """

    def __init__(
        self,
        environment: ExecutionEnvironment,
        workers: int | None = None,
        *,
        trials_per_gpu: int = 1,
        trials_per_process: int = 1,
        informing_trials_per_process: int = _INFORMING_TRIALS,
    ) -> None:
        self.environment = environment
        self.informing_trials_per_process = informing_trials_per_process
        self.trials_per_process = trials_per_process
        self._max_trials = trials_per_process
        self.requested_workers, self.trials_per_gpu = workers, trials_per_gpu
        self.workers = self.workers_per_device = 1
        self.health = DeviceHealth([environment.device])
        self.losses = LostProcessCounter()
        self.clock = ProgressClock(environment.trial_timeout)

    def run(self, next_task: NextTask, on_message: OnMessage, on_tick: OnTick, trials: int = 1) -> None:
        """Run every task of `next_task`. An exception of a callback ends the processes.

        A process that does not start, or is lost while it starts, is reported as an infrastructure failure that is not
        the trial's fault. A GPU that cannot be used, or on which trials fail while others work, gets no further trial.

        Raises:
            TrialProcessLostError: Several processes in a row were lost, or no device can be used, and no trial is
                running.
        """
        self.losses = LostProcessCounter()
        self._max_trials = self.trials_per_process
        self.health = DeviceHealth(list_devices_of_name(self.environment.device))
        self.workers = self._num_processes(trials)
        self.workers_per_device = ceil(self.workers / len(self.health.devices))
        live: list[_WorkerProcess] = []
        try:
            while True:
                no_task_left = self._assign_tasks_to_idle_workers(live, next_task, on_message)
                busy = [worker for worker in live if worker.tasks]
                if not busy:
                    self.losses.check_number_of_lost_processes()
                    self.health.check_device_is_left()
                    if no_task_left:
                        return
                sources = [worker.connection for worker in busy] + [worker.process.sentinel for worker in busy]
                wait(sources, timeout=_TICK_SECONDS)
                for worker in busy:
                    self._receive_messages(worker, on_message)
                    self._end_if_stalled(worker, on_message)
                on_tick([token for worker in live for token in worker.tasks])
        finally:
            _end_worker_processes(live)

    def num_parallel_trials(self, trials: int) -> int:
        """Number of trials that all worker processes run at the same time, at most."""
        return self._num_processes(trials) * self.trials_per_process

    def _num_processes(self, trials: int) -> int:
        if self.requested_workers is not None:
            return self.requested_workers
        device = self.environment.device
        if is_gpu(device):
            return len(list_devices_of_name(device)) * self.trials_per_gpu
        side_by_side = max(1, num_available_cores() // self.environment.threads)
        if self.trials_per_process > 1:  # an additional process would take trials from those that train several
            return max(1, min(side_by_side, trials))
        return choose_num_processes_per_device(device, trials, side_by_side)

    def _assign_tasks_to_idle_workers(
        self, live: list[_WorkerProcess], next_task: NextTask, on_message: OnMessage
    ) -> bool:
        """Assign a trial to every process that can take one; returns whether `next_task` has none left."""
        usable = self.health.usable_devices
        _end_worker_processes([worker for worker in live if not worker.tasks and worker.device not in usable])
        _remove_ended_workers(live)
        while self._find_free_worker(live) is not None or self._may_start_process(live):
            task = next_task()
            if task is None:
                return True
            if task.alone:  # idle processes occupy memory that the trial needs
                _end_worker_processes([worker for worker in live if not worker.tasks])
                _remove_ended_workers(live)
            worker = self._find_free_worker(live)
            try:
                if worker is None or (worker.tasks and self._may_start_process(live)):
                    worker = self._start_worker_process(live)
            except (OSError, EOFError, MemoryError) as error:
                reason = f"no process for the trial could be started: {type(error).__name__}: {error}"
                self._report_lost_process(
                    task, TaskFailed(FailureClass.INFRASTRUCTURE, reason, process_lost=True), on_message
                )
                continue
            worker.tasks[task.token] = task
            worker.output.allow_for_next_trial()
            self.clock.note_progress(worker)
            with suppress(OSError):  # the process has just ended; _receive_messages reports it
                worker.connection.send(task)
        return False

    def _find_free_worker(self, live: list[_WorkerProcess]) -> _WorkerProcess | None:
        """The process with the fewest trials, of these the newest; None where all have as many as they may run."""
        free = [
            worker
            for worker in live
            if self._takes_another_trial(worker)
            and worker.device in self.health.usable_devices
            and not worker.is_unusable
            and worker.process.is_alive()
        ]
        return min(reversed(free), key=lambda worker: len(worker.tasks), default=None)

    def _takes_another_trial(self, worker: _WorkerProcess) -> bool:
        """May a process run one more trial? None beside those that fit with no other, and few that inform a sampler."""
        tasks = worker.tasks.values()
        return not tasks or (
            len(tasks) < self._max_trials
            and sum(task.informs_sampler for task in tasks) < self.informing_trials_per_process
            and any(may_be_fused_with_others(task.trial) for task in tasks)
        )

    def _may_start_process(self, live: list[_WorkerProcess]) -> bool:
        capacity = min(self.workers, self.workers_per_device * len(self.health.usable_devices))
        return len(live) < capacity and not self.losses.is_start_delayed and not self.losses.has_too_many_lost_processes

    def _report_lost_process(self, task: TrialTask, message: TaskFailed, on_message: OnMessage) -> None:
        if not message.device_unusable:
            self.losses.record_lost_process(message.reason)
        on_message(task, message)

    def _start_worker_process(self, live: list[_WorkerProcess]) -> _WorkerProcess:
        """Start a process. Raises OSError, EOFError or MemoryError if the machine or the forkserver fails.

        multiprocessing replaces a forkserver that has ended at the next start.
        """
        register_modules_for_preloading()
        driver_end, worker_end = CONTEXT.Pipe()
        output = ProcessOutput()
        occupied = [worker.device for worker in live]
        device = min(self.health.usable_devices, key=occupied.count)
        gpu_fraction = 1 / self.workers_per_device if is_gpu(device) else 1.0
        environment = replace(
            self.environment,
            device=device,
            gpu_fraction=gpu_fraction,
            runs_one_trial=self.trials_per_process == 1,
        )
        context: Any = CONTEXT
        process: BaseProcess = context.Process(
            target=_run_with_limited_output, args=(output.writer, run_worker, worker_end, environment), daemon=True
        )
        try:
            process.start()
        except BaseException:
            driver_end.close()
            raise
        finally:
            worker_end.close()
            output.writer.close()
        worker = _WorkerProcess(process, driver_end, device, output)
        live.append(worker)
        return worker

    def _receive_messages(self, worker: _WorkerProcess, on_message: OnMessage) -> None:
        """Report every message of a busy worker, and its end."""
        while worker.tasks:
            received = _find_next_message(worker)
            if received is None:
                return
            self.clock.note_progress(worker)
            token, message = received
            ends_process = token is None or (isinstance(message, TaskFailed) and message.process_unusable)
            if ends_process and worker.ready and len(worker.tasks) > 1:
                self._max_trials = 1
            for task in [worker.tasks[token]] if token is not None else list(worker.tasks.values()):
                self._receive_message(worker, task, message, on_message)

    def _end_if_stalled(self, worker: _WorkerProcess, on_message: OnMessage) -> None:
        if not worker.tasks or not self.clock.is_stalled(worker):
            return
        if len(worker.tasks) > 1:
            self._max_trials = 1
        failure = self.clock.make_failure(process_lost=not worker.ready)
        for task in list(worker.tasks.values()):
            self._receive_message(worker, task, failure, on_message)

    def _receive_message(
        self, worker: _WorkerProcess, task: TrialTask, message: Message, on_message: OnMessage
    ) -> None:
        if isinstance(message, TERMINAL_MESSAGES):
            del worker.tasks[task.token]
            self._record_health(worker.device, message)
        if isinstance(message, TaskFailed) and message.process_unusable:
            worker.is_unusable = True
            worker.process.kill()
            worker.process.join(_KILL_SECONDS)  # a process that waits for a file system may not end
        if isinstance(message, TaskFailed) and message.process_lost:
            self._report_lost_process(task, message, on_message)
            return
        if isinstance(message, TERMINAL_MESSAGES):
            self.losses.reset_after_completed_trial()
        decision = on_message(task, message)
        if isinstance(message, EpochDone) and task.prunable:
            with suppress(OSError):  # the process has just ended; the next iteration reports it
                worker.connection.send((task.token, decision))

    def _record_health(self, device: str, message: Message) -> None:
        if not isinstance(message, TaskFailed):
            self.health.record_completed_trial(device)
        elif message.device_unusable:
            self.health.exclude_device(device, message.reason)
        elif message.failure is FailureClass.INFRASTRUCTURE and not message.process_lost:
            self.health.record_failure(device, message.reason)


def choose_num_fused_trials(device: str) -> int:
    """Return the number of trials that a process trains as one program, unless the user says otherwise."""
    return _FUSED_TRIALS_ON_GPU if is_gpu(device) else _FUSED_TRIALS_ON_CPU


def _find_next_message(worker: _WorkerProcess) -> FromWorker | None:
    """The next message of a worker, None if there is none; one that ended yields a TaskFailed for all of its trials.

    A process that ended before it was ready, or that runs on without the forkserver that reports its end, is lost.
    """
    alive = worker.process.is_alive()  # checked first, so that every message before the end is received
    is_orphan = not alive and worker.process.exitcode == _FORKSERVER_LOST_EXIT_CODE
    try:
        while worker.connection.poll():
            received: FromWorker | None = worker.connection.recv()
            worker.ready = worker.ready or received is READY
            if received is not READY:
                return received
    except (EOFError, OSError):
        worker.process.join()
        alive = is_orphan = False
    if alive:
        return None
    reason = f"the worker process ended with exit code {worker.process.exitcode}"
    if is_orphan:
        reason = "the forkserver ended, so the state of the trial's process is unknown; the process is abandoned"
    return None, TaskFailed(FailureClass.INFRASTRUCTURE, reason, process_lost=is_orphan or not worker.ready)


def _run_with_limited_output(
    writer: Connection,
    run: Callable[[Connection, ExecutionEnvironment], None],
    connection: Connection,
    environment: ExecutionEnvironment,
) -> None:
    print_to_connection(writer)
    run(connection, environment)


def _remove_ended_workers(live: list[_WorkerProcess]) -> None:
    """Remove ended processes. A process without its forkserver ends when its connection is closed."""
    for worker in list(live):
        if not worker.tasks and (worker.is_unusable or not worker.process.is_alive()):
            live.remove(worker)
            worker.connection.close()
            with suppress(ValueError):  # it was killed and has not ended
                worker.process.close()


def _end_worker_processes(live: list[_WorkerProcess]) -> None:
    """End every process: idle ones by closing their connection, busy ones by SIGKILL."""
    for worker in live:
        if worker.tasks:
            worker.process.kill()
        worker.connection.close()
    for worker in live:
        worker.process.join()
        worker.output.wait_until_forwarded()
