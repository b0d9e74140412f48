"""The parts that configure Ray Tune in the driver: a searcher, a scheduler, a callback, and the tuner with them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.ray.environment import set_ray_environment_variables
from bln_search.execution.executors.ray.trainable import TaskTrainable
from bln_search.execution.messages import TrialTask

set_ray_environment_variables()

import ray  # noqa: E402
from ray import tune  # noqa: E402
from ray.tune import CheckpointConfig, FailureConfig, RunConfig, TuneConfig  # noqa: E402
from ray.tune.schedulers import FIFOScheduler  # noqa: E402
from ray.tune.search import Searcher  # noqa: E402

_MAX_CONCURRENT_TRIALS = 100_000
"""Tune's bound of trials side by side; the searcher has a lower one that follows the cluster's capacity."""


class _NotSerializedByTune:
    """Excludes an object from Tune's files and copies, because it holds methods of the driver."""

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


class TaskFeedingSearcher(_NotSerializedByTune, Searcher):
    """Passes tasks to Tune. A trial of Tune has several tasks where they are trained as one program, or are short.

    Args:
        environment: Where trials run.
        next_tasks: Returns the next tasks of one process, none if there is none now.
        may_get_more: Can a task follow although there is none now?
        gpus: GPUs of one trial.
        are_fused: Whether several tasks of a process are trained as one program, instead of one after another.
    """

    def __init__(
        self,
        environment: ExecutionEnvironment,
        next_tasks: Callable[[], tuple[TrialTask, ...]],
        may_get_more: Callable[[], bool],
        gpus: float = 0,
        *,
        are_fused: bool = False,
    ) -> None:
        super().__init__(metric="done", mode="max")
        self.are_fused = are_fused
        self.environment, self.next_tasks, self.may_get_more, self.gpus = environment, next_tasks, may_get_more, gpus

    def suggest(self, trial_id: str) -> Any:  # noqa: ARG002
        """The next tasks; None if there is none now, FINISHED if there is none left."""
        tasks = self.next_tasks()
        if not tasks:
            return None if self.may_get_more() else Searcher.FINISHED
        return {"tasks": tasks, "environment": self.environment, "gpus": self.gpus, "are_fused": self.are_fused}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:  # noqa: FBT001, FBT002
        """Do nothing: DriverReportingCallback reports results."""

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: studies resume from the ledger."""

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing: studies resume from the ledger."""

    def get_state(self) -> dict[str, Any]:
        """Return no state: studies resume from the ledger."""
        return {}


class InOrderTaskScheduler(_NotSerializedByTune, FIFOScheduler):
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


class DriverReportingCallback(_NotSerializedByTune, tune.Callback):
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
        self.on_loss(trial, _reason_of_lost_process(trial))

    def get_state(self) -> None:
        """Return no state: studies resume from the ledger."""


def make_tuner(
    searcher: TaskFeedingSearcher,
    scheduler: InOrderTaskScheduler,
    callback: DriverReportingCallback,
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


def _reason_of_lost_process(trial: Any) -> str:
    """Why a trial's process ended. Tune has the error in a file, not yet in its storage."""
    try:
        with open(trial.pickled_error_file, "rb") as stream:  # noqa: PTH123 - Tune has a path of type str
            error = ray.cloudpickle.load(stream)
    except (OSError, TypeError):
        return "the worker process ended"
    first_line = str(error).strip().splitlines()[0] if str(error).strip() else ""
    return f"the worker process ended ({type(error).__name__}: {first_line[:200]})"
