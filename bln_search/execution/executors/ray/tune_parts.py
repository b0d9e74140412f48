"""The parts that Ray Tune is configured with: a trainable, a searcher, a scheduler, a callback."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch

from bln_search.core.records import EpochRecord
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.base import classify_failure
from bln_search.execution.executors.ray.environment import prepare_environment
from bln_search.execution.messages import TERMINAL_MESSAGES, Message, Task
from bln_search.execution.trial import run_task

prepare_environment()

import ray  # noqa: E402
import ray.tune.tune  # noqa: E402
from ray import tune  # noqa: E402
from ray.tune import CheckpointConfig, FailureConfig, RunConfig, TuneConfig  # noqa: E402
from ray.tune.schedulers import FIFOScheduler  # noqa: E402
from ray.tune.search import Searcher  # noqa: E402

_RESULT_INTERVAL = 2.0
"""Least number of seconds between two results of a trial, because each result costs Tune some milliseconds."""

_MAX_CONCURRENT_TRIALS = 100_000
"""Tune's bound of trials side by side; the searcher has a lower one that follows the cluster's capacity."""


def _freeze_gc() -> None:
    """Exclude the objects of Ray, torch and other imported modules from garbage collection: a full pass takes 0.1 s."""
    gc.collect()
    gc.freeze()


def limit_gpu_memory(task: Task, gpus: float) -> None:
    """Limit a trial on a fraction of a GPU to that fraction of its memory; a trial that runs alone has no limit."""
    if 0 < gpus < 1:
        torch.cuda.set_per_process_memory_fraction(1.0 if task.alone else gpus)


Steps = Generator[EpochRecord | None, None, None]


class TaskTrainable(tune.Trainable):
    """A worker process that runs one task after another.

    A step of a prunable task is one epoch. A step of another task ends at an epoch at least two seconds after its
    start, and before the evaluation, so that the driver receives the checkpoint, unless training was shorter than that.
    """

    task: Task
    environment: ExecutionEnvironment
    steps: Steps | None
    messages: list[Message]
    began: float
    tasks = 0

    def setup(self, config: dict[str, Any]) -> None:
        """Set the first task."""
        self._set_task(config)

    def _set_task(self, config: dict[str, Any]) -> None:
        if self.tasks < 2:  # the first task imports the modules that later tasks use
            _freeze_gc()
        self.tasks += 1
        self.task, self.environment = config["task"], config["environment"]
        self.steps, self.messages = None, []
        self.process_error: Exception | None = None
        limit_gpu_memory(self.task, config.get("gpus", 0))

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Set the next task of the same process."""
        if self.steps is not None:
            self.steps.close()
        self._set_task(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Run for a while or to the end; returns the messages.

        Raises an error that makes this process unusable after all earlier messages were returned: Tune then ends the
        process.
        """
        if self.process_error is not None:
            raise self.process_error
        start = time.monotonic()
        if self.steps is None:
            self.began = start
            self.steps = run_task(self.task, self.environment, self.messages.append)
        try:
            for record in self.steps:
                since = self.began if record is None else start
                if self.task.prunable or time.monotonic() - since > _RESULT_INTERVAL:
                    break
        except Exception as error:
            failure = classify_failure(error)
            if not failure.process_unusable:
                self.messages.append(failure)
            elif not self.messages:
                raise
            else:
                self.process_error = error
        messages, self.messages[:] = list(self.messages), []
        return {"messages": messages, "done": any(isinstance(message, TERMINAL_MESSAGES) for message in messages)}

    def get_auto_filled_metrics(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The metrics that Tune adds to a result, without the task."""
        metrics: dict[str, Any] = super().get_auto_filled_metrics(*args, **kwargs)
        metrics.pop("config", None)
        return metrics

    def log_result(self, result: dict[str, Any]) -> None:
        """Do nothing: results are stored in the ledger."""


class _NotSerialized:
    """Excludes an object from Tune's files and copies, because it holds methods of the driver."""

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


class TaskSearcher(_NotSerialized, Searcher):
    """Passes tasks to Tune.

    Args:
        environment: Where trials run.
        next_task: Returns the next task, None if there is none now.
        may_get_more: Can a task follow although there is none now?
        gpus: GPUs of one trial.
    """

    def __init__(
        self,
        environment: ExecutionEnvironment,
        next_task: Callable[[], Task | None],
        may_get_more: Callable[[], bool],
        gpus: float = 0,
    ) -> None:
        super().__init__(metric="done", mode="max")
        self.environment, self.next_task, self.may_get_more, self.gpus = environment, next_task, may_get_more, gpus

    def suggest(self, trial_id: str) -> Any:  # noqa: ARG002
        """The next task; None if there is none now, FINISHED if there is none left."""
        task = self.next_task()
        if task is None:
            return None if self.may_get_more() else Searcher.FINISHED
        return {"task": task, "environment": self.environment, "gpus": self.gpus}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:  # noqa: FBT001, FBT002
        """Do nothing: TaskCallback reports results."""

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: studies resume from the ledger."""

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing: studies resume from the ledger."""

    def get_state(self) -> dict[str, Any]:
        """Return no state: studies resume from the ledger."""
        return {}


class TaskScheduler(_NotSerialized, FIFOScheduler):
    """Runs trials in order; stops a trial between two epochs if the driver decides so.

    Args:
        report_result: Reports the messages of a result; returns whether the trial must stop.
    """

    def __init__(self, report_result: Callable[[Any, dict[str, Any]], bool]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.report_result = report_result

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:  # noqa: ARG002
        """Report the messages of a result and return the driver's decision."""
        return str(self.STOP if self.report_result(trial, result) else self.CONTINUE)


class TaskCallback(_NotSerialized, tune.Callback):
    """Reports Tune's events to the driver.

    Args:
        on_tick: Called between two events.
        on_start: Called with a trial that has a process.
        report_result: Reports the messages of a result.
        on_loss: Called with a trial whose process ended, and the reason.
    """

    def __init__(
        self,
        on_tick: Callable[[], None],
        on_start: Callable[[Any], None],
        report_result: Callable[[Any, dict[str, Any]], bool],
        on_loss: Callable[[Any, str], None],
    ) -> None:
        self.on_tick, self.on_start, self.report_result, self.on_loss = on_tick, on_start, report_result, on_loss

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:  # noqa: ARG002
        """Tune is between two events."""
        self.on_tick()

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        """A trial has a process."""
        self.on_start(trial)

    def on_trial_result(
        self,
        iteration: int,  # noqa: ARG002
        trials: list[Any],  # noqa: ARG002
        trial: Any,
        result: dict[str, Any],
        **info: Any,  # noqa: ARG002
    ) -> None:
        """Report the last result of a trial, which Tune does not pass to the scheduler."""
        self.report_result(trial, result)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        """A trial's process has ended, or did not start."""
        self.on_loss(trial, _loss_reason(trial))

    def get_state(self) -> None:
        """Return no state: studies resume from the ledger."""


def make_tuner(
    searcher: TaskSearcher,
    scheduler: TaskScheduler,
    callback: TaskCallback,
    *,
    resources: dict[str, float],
    storage: str,
) -> tune.Tuner:
    """A Tuner with these parts that reuses processes and writes only a few files, into `storage`."""
    numbers = itertools.count()
    return tune.Tuner(
        tune.with_resources(TaskTrainable, resources),
        tune_config=TuneConfig(
            search_alg=searcher,
            scheduler=scheduler,
            reuse_actors=True,
            num_samples=-1,
            max_concurrent_trials=_MAX_CONCURRENT_TRIALS,
            trial_name_creator=lambda _: f"trial{next(numbers)}",
            trial_dirname_creator=lambda trial: str(trial.trial_id),
        ),
        run_config=RunConfig(
            name="study",
            storage_path=storage,
            verbose=0,
            callbacks=[callback],
            failure_config=FailureConfig(max_failures=0),
            checkpoint_config=CheckpointConfig(checkpoint_frequency=0, checkpoint_at_end=False),
        ),
    )


def end_actor(actor: Any) -> None:
    """Kill a process; the process or the cluster may be gone already."""
    with suppress(Exception):
        ray.kill(actor, no_restart=True)


def _loss_reason(trial: Any) -> str:
    """Why a trial's process ended. Tune has the error in a file, not yet in its storage."""
    try:
        with open(trial.pickled_error_file, "rb") as stream:  # noqa: PTH123 - Tune has a path of type str
            error = ray.cloudpickle.load(stream)
    except (OSError, TypeError):
        return "the worker process ended"
    first_line = str(error).strip().splitlines()[0] if str(error).strip() else ""
    return f"the worker process ended ({type(error).__name__}: {first_line[:200]})"


@contextmanager
def keep_starting_actors(is_responsive: Callable[[], bool]) -> Iterator[None]:
    """Inside this context a process that is still starting keeps its first trial.

    Tune assigns that trial to the first idle process and ends the starting one; with trials shorter than a start
    (1-3 s) one process would run all of them. Tune has no setting for this, so the context overrides its controller if
    the installed version has the methods that the override needs.

    Args:
        is_responsive: Does the cluster respond, so that its reservations can be released afterwards?
    """
    tune_module: Any = ray.tune.tune
    base: Any = tune_module.TuneController
    if not hasattr(base, "_maybe_reuse_cached_actor"):
        yield
        return

    controllers: list[Any] = []

    class StartingActorController(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            controllers.append(self)

        def _maybe_reuse_cached_actor(self, trial: Any) -> bool:
            actor = self._trial_to_actor.get(trial)
            starting = actor is not None and trial not in self._resetting_trials
            if starting and self._actor_manager.is_actor_started(actor):
                return False  # the process has its resources; a trial that waits for them may move to another process
            return bool(super()._maybe_reuse_cached_actor(trial))

    tune_module.TuneController = StartingActorController
    try:
        yield
    finally:
        tune_module.TuneController = base
        for controller in controllers:
            with suppress(Exception):
                _release_reservations(controller._actor_manager._resource_manager, is_responsive=is_responsive())


def _release_reservations(resource_manager: Any, *, is_responsive: bool) -> None:
    """Release the resources of a controller that an exception ended; otherwise they stay reserved.

    If the cluster is gone, only the manager's records are dropped: it would wait for the cluster when it is deleted.
    """
    if is_responsive:
        resource_manager.clear()
    else:
        resource_manager.__init__()
