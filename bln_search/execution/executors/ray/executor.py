"""Run trials with Ray Tune, on this machine or on a cluster."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

import torch

from bln_search.core.errors import ClusterError
from bln_search.core.states import FailureClass
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.base import NextTask, OnMessage, OnTick
from bln_search.execution.executors.cpu_limits import choose_num_processes_per_device, num_available_cores
from bln_search.execution.executors.process_health import ProgressClock
from bln_search.execution.executors.ray.actors import keep_first_trial_of_starting_actors, kill_actor
from bln_search.execution.executors.ray.cluster import use_joined_or_started_cluster
from bln_search.execution.executors.ray.environment import make_ray_temporary_folder, set_ray_environment_variables
from bln_search.execution.executors.ray.nodes import Cluster
from bln_search.execution.executors.ray.task_groups import ProgramGrouper, SequenceGrouper, TaskGrouper
from bln_search.execution.executors.ray.tune_parts import (
    DriverReportingCallback,
    InOrderTaskScheduler,
    TaskFeedingSearcher,
    make_tuner,
)
from bln_search.execution.messages import (
    TERMINAL_MESSAGES,
    EpochDone,
    Message,
    PruneDecision,
    TaskFailed,
    TrainingPruned,
    TrialTask,
)

set_ray_environment_variables()

from ray.exceptions import RayError  # noqa: E402

_log = logging.getLogger(__name__)


class RayExecutor:
    """Runs trials with `ray.tune.Tuner`, which reuses its processes from trial to trial. A context manager.

    Short trials run in sequences, each as one trial of Tune.

    Args:
        environment: Folders, checkpoint store, device and threads. The nodes of a joined cluster need the same folders.
        workers: Largest number of trials side by side; by default as many as fit on the present nodes, including nodes
            that join or leave during a study.
        address: host:port of a cluster to join; None starts one on this machine and stops it afterwards.
        gpus_per_trial: GPUs of one trial; 1 by default on CUDA. 0.25 runs four trials on one GPU.
        trials_per_process: Largest number of trials that one process trains as one program, with whole GPUs. Trials
            that a pruner may stop run one by one.

    Raises:
        ClusterError: The cluster cannot be reached, or lacks the resources of a trial.
    """

    def __init__(
        self,
        environment: ExecutionEnvironment,
        workers: int | None = None,
        *,
        address: str | None = None,
        gpus_per_trial: float | None = None,
        trials_per_process: int = 1,
    ) -> None:
        self.environment, self.max_workers, self.address = environment, workers, address
        self.trials_per_process = trials_per_process
        on_gpu = environment.device.startswith("cuda")
        self.gpus = (1.0 if on_gpu else 0.0) if gpus_per_trial is None else gpus_per_trial
        if environment.device.startswith("cuda:"):
            raise ClusterError(
                f"Ray assigns a GPU to every trial, so --device {environment.device} cannot name one: use cuda"
            )
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise ClusterError(f"a trial uses a part of one GPU or whole GPUs, not {self.gpus:g}")
        if trials_per_process > 1 and 0 < self.gpus < 1:
            raise ClusterError(
                f"{trials_per_process} trials as one program share a whole GPU, not {self.gpus:g} of it: leave "
                "--gpus-per-trial or --fused-trials out"
            )
        self._stack = ExitStack()
        self._cluster: Cluster | None = None

    def __enter__(self) -> Self:
        """Join or start the cluster."""
        local_gpus = torch.cuda.device_count() if self.environment.device.startswith("cuda") or self.gpus else 0
        self._cluster = self._stack.enter_context(
            use_joined_or_started_cluster(self.address, max(num_available_cores(), self.max_workers or 1), local_gpus)
        )
        try:
            self._check_cluster_capacity(self._cluster)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave or stop the cluster."""
        self._stack.close()

    def run(self, next_task: NextTask, on_message: OnMessage, on_tick: OnTick, trials: int = 1) -> None:
        """Run every task of `next_task`. An exception of a callback ends the running trials."""
        assert self._cluster is not None
        self._cluster.check_cluster_is_alive()
        self._check_cluster_capacity(self._cluster)
        _TuneRun(self, self._cluster, next_task, on_message, on_tick, trials).run(self._num_processes(trials))

    def _check_cluster_capacity(self, cluster: Cluster) -> None:
        cluster.check_trial_fits_a_node(min(float(self.threads_per_trial), cluster.cpus), self.gpus)
        if self.gpus and self.environment.device == "cpu":
            raise ClusterError(
                f"a trial would reserve {self.gpus:g} GPUs and train on the CPU, the device of this process: give "
                "--device cuda, or leave --gpus-per-trial out"
            )

    @property
    def threads_per_trial(self) -> int:
        """CPU cores that one trial uses."""
        return 1 if self.gpus else self.environment.threads

    def num_parallel_trials(self, trials: int) -> int:
        """Number of parallel trials for this number of trials."""
        return self._num_processes(trials) * self.trials_per_process

    def _num_processes(self, trials: int) -> int:
        assert self._cluster is not None
        if self.max_workers is not None:
            return self.max_workers
        if self.gpus:
            return max(1, int(self._cluster.gpus / self.gpus))
        side_by_side = max(1, int(self._cluster.cpus) // self.threads_per_trial)
        if self.trials_per_process > 1:
            return max(1, min(side_by_side, trials))
        return choose_num_processes_per_device("cpu", trials, side_by_side)


def reserved_cpus_per_trial(cpus: float, workers: int, most: int = 1) -> float:
    """CPU cores that Ray reserves for each trial: cpus/workers, at most `most`.

    Ray counts in hundredths of a core and takes whole numbers above 1. The share is at least 0.01: with 0 Ray would
    start trials without end.
    """
    share = min(float(most), max(0.01, int(cpus / workers * 100) / 100))
    return share if share < 1 else float(int(share))


class _AbortTune(BaseException):
    """Leaves Tuner.fit at once. Tune would wrap the original exception and wait for its processes."""


class _TuneRun:
    def __init__(
        self,
        executor: RayExecutor,
        cluster: Cluster,
        next_task: NextTask,
        on_message: OnMessage,
        on_tick: OnTick,
        trials: int,
    ) -> None:
        self.executor, self.cluster = executor, cluster
        self.next_task, self.on_message, self.on_tick = next_task, on_message, on_tick
        self.live: dict[int, TrialTask] = {}
        self.process_of: dict[int, int] = {}
        """Number of the process of each live task, by token; the numbers count from 0."""
        self.num_processes = 0
        self.are_fused = executor.trials_per_process > 1
        self.groups: TaskGrouper = (
            ProgramGrouper(executor.trials_per_process) if self.are_fused else SequenceGrouper(trials)
        )
        self.actors: dict[str, Any] = {}
        self.clock = ProgressClock(executor.environment.trial_timeout)
        self.error: BaseException | None = None
        self.cpus_per_trial = 1.0

    def run(self, workers: int) -> None:
        self.cpus_per_trial = reserved_cpus_per_trial(self.cluster.cpus, workers, self.executor.threads_per_trial)
        resources = {"cpu": self.cpus_per_trial, **({"gpu": self.executor.gpus} if self.executor.gpus else {})}
        storage = tempfile.mkdtemp(prefix="tune", dir=make_ray_temporary_folder())
        tuner = make_tuner(
            TaskFeedingSearcher(
                self.executor.environment,
                self._next_tasks,
                self._may_get_more_tasks,
                self.executor.gpus,
                are_fused=self.are_fused,
            ),
            InOrderTaskScheduler(self._report_messages_of_result),
            DriverReportingCallback(
                self._on_tune_tick, self._record_actor, self._report_messages_of_result, self._report_lost_process
            ),
            resources=resources,
            storage=storage,
        )
        try:
            with keep_first_trial_of_starting_actors(lambda: not self.cluster.is_unresponsive):
                tuner.fit()
        except _AbortTune:
            pass
        except RayError as error:  # errors of a trial are messages; this one concerns the cluster
            reason = str(error).partition("\n")[0][:200]
            raise ClusterError(
                f"the Ray cluster is gone or was restarted ({reason}); finished results are stored, run the same "
                "command again"
            ) from error
        finally:
            self._kill_actors()
            shutil.rmtree(storage, ignore_errors=True)
        if self.error is not None:
            raise self.error

    def _next_tasks(self) -> tuple[TrialTask, ...]:
        self._on_tune_tick()
        tasks: list[TrialTask] = []
        with self._keep_exception_and_abort_tune():
            if len(set(self.process_of.values())) >= self._max_live_tune_trials() or not self.cluster.is_responding():
                return ()
            tasks = self.groups.take_tasks(self.next_task, self._max_live_tune_trials())
            for task in tasks:
                self.live[task.token], self.process_of[task.token] = task, self.num_processes
        self.num_processes += 1
        return tuple(tasks)

    def _may_get_more_tasks(self) -> bool:
        return bool(self.live) or self.groups.postponed_task is not None or self.cluster.is_unresponsive

    def _max_live_tune_trials(self) -> int:
        """Trials that may run now; one trial may wait for a node."""
        capacity = max(1, self.cluster.max_parallel_trials(self.cpus_per_trial, self.executor.gpus))
        return capacity if self.executor.max_workers is None else min(capacity, self.executor.max_workers)

    def _report_messages_of_result(self, trial: Any, result: dict[str, Any]) -> bool:
        """Report the messages of a result, each once; returns whether the trial must stop."""
        pending: list[tuple[int, Message]] = result.get("messages") or []
        messages, pending[:] = list(pending), []
        tasks: dict[int, TrialTask] = {task.token: task for task in trial.config["tasks"]}
        self.clock.note_progress(trial.trial_id)
        if isinstance(self.groups, SequenceGrouper):
            for token, seconds in result.get("seconds", ()):
                self.groups.note_duration(tasks[token], seconds, result.get("hostname"))
        stop = False
        with self._keep_exception_and_abort_tune():
            for token, message in messages:
                task = tasks[token]
                if isinstance(message, TERMINAL_MESSAGES):
                    self._forget_task(token)
                    process = (task.trial.label, result.get("pid"), result.get("hostname"))
                    _log.info("%s: run by process %s on %s", *process, extra={"trial": task.trial.key})
                decision = self.on_message(task, message)
                if isinstance(message, EpochDone) and task.prunable and decision is PruneDecision.STOP:
                    stop = True
            if stop and self._forget_task(task.token):
                epoch = max(message.record.epoch for _, message in messages if isinstance(message, EpochDone))
                self.on_message(task, TrainingPruned(epoch))
        if not self.live.keys() & tasks.keys():
            self.clock.forget(trial.trial_id)
        return stop

    def _forget_task(self, token: int) -> bool:
        self.process_of.pop(token, None)
        return self.live.pop(token, None) is not None

    def _record_actor(self, trial: Any) -> None:
        self.actors[trial.trial_id] = trial.temporary_state.ray_actor
        self.clock.note_progress(trial.trial_id)

    def _report_lost_process(self, trial: Any, reason: str) -> None:
        self._abort_if_cluster_is_gone()
        tasks: tuple[TrialTask, ...] = trial.config["tasks"]
        self.groups.note_lost_process(tasks)
        is_unknown = len(tasks) > 1 and not self.are_fused  # which of them ran, since results wait for some seconds
        if self.clock.is_stalled(trial.trial_id):
            reason = self.clock.make_failure().reason
        self.clock.forget(trial.trial_id)
        for task in tasks:
            if self._forget_task(task.token):
                with self._keep_exception_and_abort_tune():
                    self.on_message(task, TaskFailed(FailureClass.INFRASTRUCTURE, reason, process_lost=is_unknown))

    def _on_tune_tick(self) -> None:
        self._abort_if_cluster_is_gone()
        with self._keep_exception_and_abort_tune():
            self.on_tick(list(self.live))
        for trial_id, actor in self.actors.items():
            if self.clock.is_stalled(trial_id):
                kill_actor(actor)  # Tune reports its end

    def _abort_if_cluster_is_gone(self) -> None:
        """Abort Tune if the cluster is gone, as Tune would wait for it forever."""
        with self._keep_exception_and_abort_tune():
            self.cluster.check_cluster_is_alive()

    @contextmanager
    def _keep_exception_and_abort_tune(self) -> Iterator[None]:
        """Keep an exception of the block until Tune is left, and abort Tune."""
        try:
            yield
        except _AbortTune:
            raise
        except BaseException as error:
            self.error = error
            raise _AbortTune from error

    def _kill_actors(self) -> None:
        for actor in self.actors.values() if not self.cluster.is_unresponsive else ():
            kill_actor(actor)
        self.actors.clear()
