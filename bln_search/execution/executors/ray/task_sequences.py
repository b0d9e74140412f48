"""Sequences of short trials that one process runs as one trial of Ray Tune, because Tune needs some 20 ms for each."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.execution.cost_group_key import cost_group_key
from bln_search.execution.messages import TrialTask

_MAX_SECONDS = 5.0
"""Expected duration of a sequence to which no further task is added."""

_CostKey = tuple[str, int, int | None, bool]


class TaskSequencePlanner:
    """Decides which tasks follow others in one process.

    A task follows others only if earlier trials that cost the same were short, so that no trial waits long for others.
    The waiting trials suffice for two more sequences of each process, so that no process is idle at the end.

    Args:
        trials: Approximate number of trials of the run.
    """

    def __init__(self, trials: int) -> None:
        self._num_waiting = trials
        self._seconds: dict[_CostKey, float] = {}
        self._is_enabled = True

    def disable(self) -> None:
        """From now on each task runs alone."""
        self._is_enabled = False

    def note_tasks_start(self, count: int) -> None:
        """Tasks were assigned to a process."""
        self._num_waiting = max(0, self._num_waiting - count)

    def note_duration(self, task: TrialTask, seconds: float) -> None:
        """A task has ended with a result after this time."""
        self._seconds[_cost_key(task)] = seconds

    def may_be_followed(self, tasks: Sequence[TrialTask], processes: int) -> bool:
        """Whether another task may follow these, if it `may_follow`.

        Args:
            tasks: The first tasks of a process.
            processes: Number of processes that run trials in parallel.
        """
        if not self._is_enabled or 2 * processes * len(tasks) >= self._num_waiting:
            return False
        expected = [self._find_expected_seconds(task) for task in tasks]
        return None not in expected and sum(seconds or 0.0 for seconds in expected) < _MAX_SECONDS

    def may_follow(self, task: TrialTask) -> bool:
        """Whether this task may follow others: it is known to be short, and nobody waits for its epochs or result."""
        seconds = self._find_expected_seconds(task)
        return seconds is not None and seconds < _MAX_SECONDS

    def _find_expected_seconds(self, task: TrialTask) -> float | None:
        """Duration of the last task that cost the same; None if unknown, or if the task must be the only one."""
        if task.prunable or task.alone or task.informs_sampler:
            return None
        return self._seconds.get(_cost_key(task))


def _cost_key(task: TrialTask) -> _CostKey:
    return cost_group_key(task.trial), task.trial.epochs, task.trial.horizon, task.checkpoint is None
