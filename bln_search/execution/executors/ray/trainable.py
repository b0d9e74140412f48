"""The worker process of Ray Tune: runs one task after another and returns their messages."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.base import make_task_failed_message
from bln_search.execution.executors.ray.environment import set_ray_environment_variables
from bln_search.execution.executors.trial_group import TrialGroup
from bln_search.execution.gpu import limit_gpu_memory
from bln_search.execution.messages import (
    TERMINAL_MESSAGES,
    EvaluationDone,
    Message,
    TaskFailed,
    TrainingResumed,
    TrialTask,
)
from bln_search.execution.trial import iter_epochs_of_trial_task

set_ray_environment_variables()

from ray import tune  # noqa: E402

_RESULT_INTERVAL = 2.0
"""Least number of seconds between two results of a trial, because each result costs Tune some milliseconds."""


def _freeze_garbage_collection() -> None:
    """Exclude the objects of Ray, torch and other imported modules from garbage collection: a full pass takes 0.1 s."""
    gc.collect()
    gc.freeze()


Steps = Generator[object, None, None]
"""Runs tasks: yields None before an evaluation, and something else after each epoch and each task of a sequence."""


def _run_together(
    tasks: Sequence[TrialTask], environment: ExecutionEnvironment, send: Callable[[TrialTask, Message], None]
) -> Steps:
    with TrialGroup(replace(environment, runs_one_trial=False), send) as group:
        for task in tasks:
            group.add(task)
        group.advance_trials_to_next_epoch()
        while len(group):
            group.train_fusible_pending_epochs()
            group.advance_trials_to_next_epoch()
            yield group


class TaskTrainable(tune.Trainable):
    """A worker process that runs a sequence of tasks, or several tasks as one program, then the next.

    A step of a prunable task is one epoch. Any other step ends at the first epoch that is at least _RESULT_INTERVAL
    after its start. In a sequence it also ends before an evaluation, so that the driver receives the checkpoint, unless
    training took less than that interval.
    """

    tasks: tuple[TrialTask, ...]
    environment: ExecutionEnvironment
    steps: Steps | None
    messages: list[tuple[int, Message]]
    seconds: list[tuple[int, float]]
    task_started_at: float
    task_count = 0

    def setup(self, config: dict[str, Any]) -> None:
        """Set the first tasks."""
        self._set_tasks(config)

    def _set_tasks(self, config: dict[str, Any]) -> None:
        if self.task_count < 2:  # the first one imports the modules that later ones use
            _freeze_garbage_collection()
        self.task_count += 1
        self.tasks, self.environment = config["tasks"], config["environment"]
        self.are_fused: bool = config["are_fused"]
        self.steps, self.messages, self.seconds = None, [], []
        self.live_tokens = {task.token for task in self.tasks}
        self.process_error: Exception | None = None
        limit_gpu_memory(config.get("gpus", 0), alone=self.tasks[0].alone)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Set the next tasks of the same process."""
        if self.steps is not None:
            self.steps.close()
        self._set_tasks(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Run until the step ends; returns the messages, each with the token of its task.

        Raises an error that makes this process unusable after all earlier messages were returned: Tune then ends the
        process.
        """
        if self.process_error is not None:
            raise self.process_error
        step_started_at = time.monotonic()
        if self.steps is None:
            self.steps = self._start_tasks()
        try:
            for record in self.steps:
                since = self.task_started_at if record is None else step_started_at
                if self.tasks[0].prunable or time.monotonic() - since > _RESULT_INTERVAL:
                    break
        except Exception as error:  # noqa: BLE001 - every failure becomes a message, or ends the process
            self._fail_tasks(error)
        if self.process_error is not None and not self.messages:
            raise self.process_error
        result = {"messages": self.messages, "seconds": self.seconds, "done": not self.live_tokens}
        self.messages, self.seconds = [], []
        return result

    def _start_tasks(self) -> Steps:
        if self.are_fused and len(self.tasks) > 1:
            return _run_together(self.tasks, self.environment, self._send)
        return self._run_one_after_another()

    def _run_one_after_another(self) -> Steps:
        """Run the tasks, each until it has ended or failed, and keep the durations of complete ones."""
        for task in self.tasks:
            self.task_started_at = time.monotonic()
            kinds: set[type[Message]] = set()

            def send(message: Message, task: TrialTask = task, kinds: set[type[Message]] = kinds) -> None:
                kinds.add(type(message))
                self._send(task, message)

            try:
                yield from iter_epochs_of_trial_task(task, self.environment, send)
            except Exception as error:
                failure = make_task_failed_message(error)
                if failure.process_unusable:
                    raise
                send(failure)
            if EvaluationDone in kinds and TrainingResumed not in kinds:
                self.seconds.append((task.token, time.monotonic() - self.task_started_at))
            yield task

    def _send(self, task: TrialTask, message: Message) -> None:
        """Keep a message for the result of the step. After an error of the accelerator the process ends instead."""
        if isinstance(message, TaskFailed) and message.process_unusable:
            self.process_error = RuntimeError(message.reason)
            return
        if isinstance(message, TERMINAL_MESSAGES):
            self.live_tokens.discard(task.token)
        self.messages.append((task.token, message))

    def _fail_tasks(self, error: Exception) -> None:
        failure = make_task_failed_message(error)
        if failure.process_unusable:
            self.process_error = error
            return
        for task in self.tasks:
            if task.token in self.live_tokens:
                self._send(task, failure)

    def get_auto_filled_metrics(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The metrics that Tune adds to a result, without the task."""
        metrics: dict[str, Any] = super().get_auto_filled_metrics(*args, **kwargs)
        metrics.pop("config", None)
        return metrics

    def log_result(self, result: dict[str, Any]) -> None:
        """Do nothing: results are stored in the ledger."""
