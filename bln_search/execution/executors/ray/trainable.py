"""The worker process of Ray Tune: runs one task after another and returns their messages."""

from __future__ import annotations

import gc
import time
from collections.abc import Generator
from typing import Any

from bln_search.core.records import EpochRecord
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.base import task_failed_from_error
from bln_search.execution.executors.ray.environment import set_ray_environment_variables
from bln_search.execution.gpu_memory import limit_gpu_memory
from bln_search.execution.messages import TERMINAL_MESSAGES, Message, TrialTask
from bln_search.execution.trial import run_trial_task

set_ray_environment_variables()

from ray import tune  # noqa: E402

_RESULT_INTERVAL = 2.0
"""Least number of seconds between two results of a trial, because each result costs Tune some milliseconds."""


def _freeze_garbage_collection() -> None:
    """Exclude the objects of Ray, torch and other imported modules from garbage collection: a full pass takes 0.1 s."""
    gc.collect()
    gc.freeze()


Steps = Generator[EpochRecord | None, None, None]


class SequentialTaskTrainable(tune.Trainable):
    """A worker process that runs one task after another.

    A step of a prunable task is one epoch. A step of any other task ends at the first epoch that is at least
    _RESULT_INTERVAL after the start of the step. A step also ends before the evaluation, so that the driver receives
    the checkpoint, unless training took less than that interval.
    """

    task: TrialTask
    environment: ExecutionEnvironment
    steps: Steps | None
    messages: list[Message]
    started_at: float
    task_count = 0

    def setup(self, config: dict[str, Any]) -> None:
        """Set the first task."""
        self._set_task(config)

    def _set_task(self, config: dict[str, Any]) -> None:
        if self.task_count < 2:  # the first task imports the modules that later tasks use
            _freeze_garbage_collection()
        self.task_count += 1
        self.task, self.environment = config["task"], config["environment"]
        self.steps, self.messages = None, []
        self.process_error: Exception | None = None
        limit_gpu_memory(config.get("gpus", 0), alone=self.task.alone)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Set the next task of the same process."""
        if self.steps is not None:
            self.steps.close()
        self._set_task(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Run until the step ends; returns the messages.

        Raises an error that makes this process unusable after all earlier messages were returned: Tune then ends the
        process.
        """
        if self.process_error is not None:
            raise self.process_error
        step_started_at = time.monotonic()
        if self.steps is None:
            self.started_at = step_started_at
            self.steps = run_trial_task(self.task, self.environment, self.messages.append)
        try:
            for record in self.steps:
                since = self.started_at if record is None else step_started_at
                if self.task.prunable or time.monotonic() - since > _RESULT_INTERVAL:
                    break
        except Exception as error:
            failure = task_failed_from_error(error)
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
