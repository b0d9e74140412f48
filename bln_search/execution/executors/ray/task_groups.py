"""Groups of tasks that one process runs as one trial of Ray Tune: as one program, or short ones one after another."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from bln_search.execution.cost_group_key import cost_group_key
from bln_search.execution.messages import TrialTask

_MAX_SECONDS = 5.0
"""Longest expected duration of a sequence of several tasks."""

_MAX_LENGTH = 10
"""Largest number of tasks in a sequence, because the driver claims each in a transaction of its own."""

_CostKey = tuple[str, int, int | None, bool]


class TaskGrouper(ABC):
    """Takes the tasks of one process after another.

    Args:
        capacity: Largest sum of the costs of several tasks.
    """

    def __init__(self, capacity: float) -> None:
        self.capacity = capacity
        self.postponed_task: TrialTask | None = None
        """A task that could not be in the last group; it is the first of the next."""

    def take_tasks(self, next_task: Callable[[], TrialTask | None], processes: int) -> list[TrialTask]:
        """Take the tasks of one process; none if there is none now.

        Args:
            next_task: Returns the next task, None if there is none now.
            processes: Number of processes that run tasks in parallel.
        """
        first = next_task() if self.postponed_task is None else self.postponed_task
        self.postponed_task = None
        if first is None:
            return []
        tasks, total = [first], self._find_cost(first)
        while total is not None and self._has_room(len(tasks), total, processes) and (task := next_task()) is not None:
            cost = self._find_cost(task)
            if cost is None or total + cost > self.capacity:
                self.postponed_task = task
                break
            tasks.append(task)
            total += cost
        return tasks

    def _has_room(self, length: int, total: float, processes: int) -> bool:
        """Whether another task that costs as much as the mean of these may join them."""
        return total + total / length <= self.capacity and length < self._max_length(processes)

    @abstractmethod
    def note_lost_process(self, tasks: Sequence[TrialTask]) -> None:
        """A process with these tasks ended unexpectedly; one of them may be the reason."""

    @abstractmethod
    def _find_cost(self, task: TrialTask) -> float | None:
        """The share of the capacity that a task takes; None if it must be the only task of its process."""

    def _max_length(self, processes: int) -> float:  # noqa: ARG002
        """Number of tasks from which a group has no further one."""
        return math.inf


class ProgramGrouper(TaskGrouper):
    """Groups up to `capacity` tasks that are trained as one program; after a lost process each task is alone."""

    def note_lost_process(self, tasks: Sequence[TrialTask]) -> None:
        """From now on each task is alone."""
        if len(tasks) > 1:
            self.capacity = 1

    def _find_cost(self, task: TrialTask) -> float | None:
        return None if task.prunable else 1.0


class SequenceGrouper(TaskGrouper):
    """Groups short tasks that run one after another, because each trial of Tune takes some hundredths of a second.

    A task is in a sequence only if complete trials that cost the same were short, so that no trial waits long for
    others, and only while several tasks for each process wait, so that no process is idle at the end.

    Args:
        trials: Approximate number of trials of the run.
    """

    def __init__(self, trials: int) -> None:
        super().__init__(_MAX_SECONDS)
        self._num_waiting = trials
        self._seconds: dict[_CostKey, dict[str | None, float]] = {}
        """The last duration of trials that cost the same, by host."""
        self._lost_trial_keys: set[str] = set()

    def take_tasks(self, next_task: Callable[[], TrialTask | None], processes: int) -> list[TrialTask]:
        """Take the tasks of one process, which wait no longer."""
        tasks = super().take_tasks(next_task, processes)
        self._num_waiting -= len(tasks)
        return tasks

    def note_duration(self, task: TrialTask, seconds: float, host: str | None) -> None:
        """A complete trial ended with a result after this time on this host."""
        self._seconds.setdefault(_cost_key(task), {})[host] = seconds

    def note_lost_process(self, tasks: Sequence[TrialTask]) -> None:
        """From now on each of these tasks is alone."""
        self._lost_trial_keys |= {task.trial.key for task in tasks}

    def _find_cost(self, task: TrialTask) -> float | None:
        """Expected seconds on the slowest host; None too if others wait for the epochs or the result of the task."""
        if task.prunable or task.informs_sampler:
            return None
        if self._lost_trial_keys and task.trial.key in self._lost_trial_keys:
            return None
        return max(self._seconds.get(_cost_key(task), {}).values(), default=None)

    def _max_length(self, processes: int) -> float:
        return min(_MAX_LENGTH, self._num_waiting / (2 * processes))


def _cost_key(task: TrialTask) -> _CostKey:
    return cost_group_key(task.trial), task.trial.epochs, task.trial.horizon, task.checkpoint is None
