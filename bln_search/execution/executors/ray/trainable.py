"""The worker process of Ray Tune: runs one task after another and returns their messages."""

from __future__ import annotations

import gc
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.ray.environment import set_ray_environment_variables
from bln_search.execution.executors.trial_group import TrialGroup
from bln_search.execution.gpu import limit_gpu_memory
from bln_search.execution.messages import (
    TERMINAL_MESSAGES,
    EvaluationDone,
    Message,
    PruneDecision,
    TaskFailed,
    TrainingResumed,
    TrialTask,
)

set_ray_environment_variables()

from ray import tune  # noqa: E402

_RESULT_INTERVAL = 2.0
"""Least number of seconds between two results of a trial, because each result costs Tune some milliseconds."""


def _freeze_garbage_collection() -> None:
    """Exclude the objects of Ray, torch and other imported modules from garbage collection: a full pass takes 0.1 s."""
    gc.collect()
    gc.freeze()


class TaskTrainable(tune.Trainable):
    """A worker process that runs a sequence of tasks, or several tasks as one program, then the next.

    A step of a prunable task is one epoch. Any other step ends at the first epoch that is at least _RESULT_INTERVAL
    after its start. In a sequence it also ends before an evaluation, so that the driver receives the checkpoint, unless
    training took less than that interval.
    """

    tasks: tuple[TrialTask, ...]
    environment: ExecutionEnvironment
    steps: Generator[TrialGroup, None, None] | None
    messages: list[tuple[int, Message]]
    seconds: list[tuple[int, float]]
    group_started_at: float
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
        self.kinds: dict[int, set[type[Message]]] = {task.token: set() for task in self.tasks}
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
            self.steps = self._run_tasks()
        for group in self.steps:
            since = self.group_started_at if group.is_before_evaluation else step_started_at
            if self.tasks[0].prunable or time.monotonic() - since > _RESULT_INTERVAL:
                break
        if self.process_error is not None and not self.messages:
            raise self.process_error
        result = {"messages": self.messages, "seconds": self.seconds, "done": not self.live_tokens}
        self.messages, self.seconds = [], []
        return result

    def _run_tasks(self) -> Generator[TrialGroup, None, None]:
        """Run the tasks, as one program or one after another; yield after each epoch, before evaluations, at ends."""
        environment = replace(self.environment, runs_one_trial=not self.are_fused)
        for tasks in [self.tasks] if self.are_fused else [(task,) for task in self.tasks]:
            self.group_started_at = time.monotonic()
            with TrialGroup(environment, self._send) as group:
                for task in tasks:
                    group.add(task)
                group.advance_trials_to_next_epoch()
                while len(group):
                    if group.is_awaiting_prune_decision:  # the driver ends the step of a trial that it stops
                        group.apply_prune_decision(tasks[0].token, PruneDecision.CONTINUE)
                        group.advance_trials_to_next_epoch()
                        if not group.is_before_evaluation:
                            continue
                    else:
                        group.train_fusible_pending_epochs()
                        group.advance_trials_to_next_epoch()
                    if self.process_error is not None:
                        return
                    self._note_duration(tasks, group)
                    yield group

    def _note_duration(self, tasks: Sequence[TrialTask], group: TrialGroup) -> None:
        """Keep the duration of a task that ran alone, if it was trained completely and has a result."""
        kinds = self.kinds[tasks[0].token]
        if not len(group) and not self.are_fused and EvaluationDone in kinds and TrainingResumed not in kinds:
            self.seconds.append((tasks[0].token, time.monotonic() - self.group_started_at))

    def _send(self, task: TrialTask, message: Message) -> None:
        """Keep a message for the result of the step. After an error of the accelerator the process ends instead."""
        if isinstance(message, TaskFailed) and message.process_unusable:
            self.process_error = RuntimeError(message.reason)
            return
        if isinstance(message, TERMINAL_MESSAGES):
            self.live_tokens.discard(task.token)
        self.kinds[task.token].add(type(message))
        self.messages.append((task.token, message))

    def get_auto_filled_metrics(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The metrics that Tune adds to a result, without the task."""
        metrics: dict[str, Any] = super().get_auto_filled_metrics(*args, **kwargs)
        metrics.pop("config", None)
        return metrics

    def log_result(self, result: dict[str, Any]) -> None:
        """Do nothing: results are stored in the ledger."""
