"""Trials carried out by Ray Tune, on this machine or on a cluster."""

from __future__ import annotations

import logging
import shutil
import tempfile
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import torch

from bln_search.core.errors import ClusterError
from bln_search.core.states import FailureClass
from bln_search.execution.environment import Place
from bln_search.execution.executors.base import NextTask, Pulse, Report
from bln_search.execution.executors.cpu_limits import choose_workers, cores
from bln_search.execution.executors.ray.cluster import cluster
from bln_search.execution.executors.ray.environment import own_folder, prepare_environment
from bln_search.execution.executors.ray.nodes import Cluster
from bln_search.execution.executors.ray.tune_parts import (
    TaskCallback,
    TaskScheduler,
    TaskSearcher,
    end_actor,
    make_tuner,
    steady_actors,
)
from bln_search.execution.messages import ENDS, EpochDone, Message, Task, TaskFailed, TrainingPruned, Verdict

prepare_environment()

from ray.exceptions import RayError  # noqa: E402

_log = logging.getLogger(__name__)


class RayExecutor:
    """Runs trials through `ray.tune.Tuner`, whose processes live from one trial to the next. A context manager.

    address: host:port of a cluster to join; the folders of `place` must be there too. Without it a cluster of this
    machine is started and ended. workers: trials side by side at most; by default as many as the nodes carry that are
    there at the moment, those that join or end while a study runs included.
    gpus_per_trial: on CUDA 1 by default; 0.25 puts four trials on one GPU.

    Raises ClusterError where the cluster cannot be reached or lacks what a trial asks for.
    """

    def __init__(
        self,
        place: Place,
        workers: int | None = None,
        *,
        address: str | None = None,
        gpus_per_trial: float | None = None,
    ) -> None:
        self.place, self.wanted, self.address = place, workers, address
        on_gpu = place.device.startswith("cuda")
        self.gpus = (1.0 if on_gpu else 0.0) if gpus_per_trial is None else gpus_per_trial
        if place.device.startswith("cuda:"):
            raise ClusterError(
                f"Ray gives every trial a GPU of its own, so --device {place.device} names none: use cuda"
            )
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise ClusterError(f"a trial uses a part of one GPU or whole GPUs, not {self.gpus:g}")
        self._stack = ExitStack()
        self._cluster: Cluster | None = None

    def __enter__(self) -> Self:
        """Join or start the cluster."""
        own_gpus = torch.cuda.device_count() if self.place.device.startswith("cuda") or self.gpus else 0
        self._cluster = self._stack.enter_context(cluster(self.address, max(cores(), self.wanted or 1), own_gpus))
        try:
            self._check_room(self._cluster)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave it or end it."""
        self._stack.close()

    def run(self, next_task: NextTask, report: Report, pulse: Pulse, trials: int = 1) -> None:
        """Carry out every task that `next_task` gives. Leaving by an exception ends what is under way."""
        assert self._cluster is not None
        self._cluster.check()
        self._check_room(self._cluster)
        _TuneRun(self, self._cluster, next_task, report, pulse).run(self._side_by_side(self._cluster, trials))

    def _check_room(self, cluster: Cluster) -> None:
        cluster.check_room(min(float(self.threads), cluster.cpus), self.gpus)
        if self.gpus and self.place.device == "cpu":
            raise ClusterError(
                f"a trial would reserve {self.gpus:g} GPUs and train on the CPU, the device of this process: give "
                "--device cuda, or leave --gpus-per-trial out"
            )

    @property
    def threads(self) -> int:
        """Cores that a trial keeps busy."""
        return 1 if self.gpus else self.place.threads

    def _side_by_side(self, cluster: Cluster, trials: int) -> int:
        if self.wanted is not None:
            return self.wanted
        if self.gpus:
            return max(1, int(cluster.gpus / self.gpus))
        return choose_workers("cpu", trials, max(1, int(cluster.cpus) // self.threads))


def cpu_share(cpus: float, side_by_side: int, most: int = 1) -> float:
    """What of `most` cores each trial takes, in the hundredths that Ray counts in; never none, which would have no end.

    Of several cores a whole number, which is all that Ray takes.
    """
    share = min(float(most), max(0.01, int(cpus / side_by_side * 100) / 100))
    return share if share < 1 else float(int(share))


class _LeaveTune(BaseException):
    """Leaves Tune at once; what led to it is kept aside, as Tune would wrap it and wait for its processes."""


class _TuneRun:
    """One call of `Tuner.fit`."""

    def __init__(
        self, executor: RayExecutor, cluster: Cluster, next_task: NextTask, report: Report, pulse: Pulse
    ) -> None:
        self.executor, self.cluster = executor, cluster
        self.next_task, self.report, self.pulse = next_task, report, pulse
        self.live: dict[int, Task] = {}
        self.actors: dict[str, Any] = {}
        self.error: BaseException | None = None
        self.share = 1.0

    def run(self, side_by_side: int) -> None:
        self.share = cpu_share(self.cluster.cpus, side_by_side, self.executor.threads)
        resources = {"cpu": self.share, **({"gpu": self.executor.gpus} if self.executor.gpus else {})}
        storage = tempfile.mkdtemp(prefix="tune", dir=own_folder())
        tuner = make_tuner(
            TaskSearcher(self.executor.place, self._next, self._waits, self.executor.gpus),
            TaskScheduler(self._hear),
            TaskCallback(self._pulse, self._started, self._hear, self._lost),
            resources=resources,
            storage=storage,
        )
        try:
            with steady_actors(lambda: not self.cluster.is_silent):
                tuner.fit()
        except _LeaveTune:
            pass
        except RayError as error:  # what goes wrong with a trial is heard; this is about the cluster
            reason = str(error).partition("\n")[0][:200]
            raise ClusterError(
                f"the Ray cluster is gone or was started anew ({reason}); what was finished is kept, run the same "
                "command again"
            ) from error
        finally:
            self._end_actors()
            shutil.rmtree(storage, ignore_errors=True)
        if self.error is not None:
            raise self.error

    def _next(self) -> Task | None:
        self._pulse()
        with self._kept_aside():
            if len(self.live) >= self._room() or not self.cluster.answers():
                return None
            task = self.next_task()
        if task is not None:
            self.live[task.token] = task
        return task

    def _waits(self) -> bool:
        """Is there no task only for the moment?"""
        return bool(self.live) or self.cluster.is_silent

    def _room(self) -> int:
        """Trials side by side now; one waits for a node where there is none."""
        room = max(1, self.cluster.room(self.share, self.executor.gpus))
        return room if self.executor.wanted is None else min(room, self.executor.wanted)

    def _hear(self, trial: Any, result: dict[str, Any]) -> bool:
        """Report the messages of a result, each once; should the trial stop?"""
        messages: list[Message] = result.get("messages") or []
        said, messages[:] = list(messages), []
        task: Task = trial.config["task"]
        stop = False
        with self._kept_aside():
            for message in said:
                if isinstance(message, ENDS):
                    self.live.pop(task.token, None)
                    where = (task.trial.label, result.get("pid"), result.get("hostname"))
                    _log.info("%s: carried out by process %s on %s", *where, extra={"trial": task.trial.key})
                verdict = self.report(task, message)
                if isinstance(message, EpochDone) and task.prunable and verdict is Verdict.STOP:
                    stop = True
            if stop and task.token in self.live:
                self.live.pop(task.token)
                epoch = max(message.record.epoch for message in said if isinstance(message, EpochDone))
                self.report(task, TrainingPruned(epoch))
        return stop

    def _started(self, trial: Any) -> None:
        self.actors[trial.trial_id] = trial.temporary_state.ray_actor

    def _lost(self, trial: Any, reason: str) -> None:
        self.cluster_is_there()
        task: Task = trial.config["task"]
        if self.live.pop(task.token, None) is not None:
            with self._kept_aside():
                self.report(task, TaskFailed(FailureClass.INFRASTRUCTURE, reason))

    def _pulse(self) -> None:
        self.cluster_is_there()
        with self._kept_aside():
            self.pulse(list(self.live))

    def cluster_is_there(self) -> None:
        """Leave where the cluster is gone: Tune would wait for it for ever."""
        with self._kept_aside():
            self.cluster.check()

    def _kept_aside(self) -> _KeptAside:
        return _KeptAside(self)

    def _end_actors(self) -> None:
        for actor in self.actors.values() if not self.cluster.is_silent else ():
            end_actor(actor)
        self.actors.clear()


class _KeptAside:
    """What is raised inside is kept in the run and Tune is left."""

    def __init__(self, run: _TuneRun) -> None:
        self.run = run

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, _LeaveTune):
            self.run.error = error
            raise _LeaveTune from error
