"""The trials of a run that wait for an attempt, and the decision whether a failed trial waits for another one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bln_search.core.states import FailureClass
from bln_search.evaluation.chunking import MEMORY_LIMIT
from bln_search.execution.messages import TaskFailed, TrialTask
from bln_search.specs.records import TrialRecord

_MAX_ATTEMPTS = 3
"""Attempts in a row without progress, in one run, when the infrastructure fails or memory runs out."""

_PAGE = 1_000
"""Trials that are loaded at once: a study may have a hundred thousand."""

_TRAINING_TOO_LARGE = (
    "in training, with no other trial of this run beside it: lower training.batch_size or the model's widths, or take "
    "a device with more memory"
)


@dataclass(frozen=True)
class RetryDecision:
    """What follows a failed attempt.

    Attributes:
        again: Whether the trial waits for another attempt; otherwise it has failed.
        alone: Whether that attempt must run while no other trial runs.
        reason: Why the attempt failed.
    """

    again: bool
    alone: bool
    reason: str


class WaitingTrials:
    """Queues of the trials of one run, and how often each was attempted in it.

    Args:
        open_ids: Ids of the trials that are open when the run starts, in their order.
        load_trials: Loads trials by id.
    """

    def __init__(
        self, open_ids: Iterable[int] = (), load_trials: Callable[[Sequence[int]], list[TrialRecord]] | None = None
    ) -> None:
        self._not_loaded = deque(open_ids)
        self._load_trials = load_trials
        self._trials: deque[TrialRecord] = deque()
        self._alone: deque[TrialRecord] = deque()
        """Trials that ran out of memory in training: they run again while no other trial runs."""
        self._attempts: dict[int, int] = {}
        self._memory_limits: dict[int, int] = {}

    def __len__(self) -> int:
        """The number of trials that may run beside others."""
        return len(self._trials) + len(self._not_loaded)

    def add_trials(self, trials: Iterable[TrialRecord], *, alone: bool = False) -> None:
        """Append trials; `alone`: to those that run while no other trial runs."""
        (self._alone if alone else self._trials).extend(trials)

    def take_next_trial(self, *, is_idle: bool) -> tuple[TrialRecord, bool] | None:
        """Take the next trial.

        Args:
            is_idle: Whether no trial runs, so that one may start that must run alone.

        Returns:
            The trial, and whether it must run alone; None where no trial may start now.
        """
        if not self._trials:
            self._load_page()
        if self._trials:
            return self._trials.popleft(), False
        return (self._alone.popleft(), True) if self._alone and is_idle else None

    def _load_page(self) -> None:
        """Load the next of the trials that were open when the run started."""
        if self._not_loaded and self._load_trials is not None:
            page = [self._not_loaded.popleft() for _ in range(min(_PAGE, len(self._not_loaded)))]
            self._trials.extend(self._load_trials(page))

    def note_attempt_start(self, trial_id: int) -> None:
        """Count an attempt that starts."""
        self._attempts[trial_id] = self._attempts.get(trial_id, 0) + 1

    def note_progress(self, trial_id: int) -> None:
        """An attempt saved the state of its training, from which the next one resumes: earlier ones do not count."""
        self._attempts[trial_id] = 1

    def activation_limit_of_trial(self, trial_id: int) -> int | None:
        """Bytes of the largest activation in the evaluation of a trial that ran out of memory there; None otherwise."""
        return self._memory_limits.get(trial_id)

    def decide_retry(
        self, trial_id: int, task: TrialTask, failure: TaskFailed, *, is_evaluating: bool
    ) -> RetryDecision:
        """Decide whether a failed trial is attempted again; halve its memory limit where the evaluation exceeded it.

        Args:
            trial_id: The trial.
            task: Its attempt.
            failure: How the attempt failed.
            is_evaluating: Whether the network is trained: evaluation can use less memory, training cannot.
        """
        self._attempts[trial_id] -= failure.process_lost
        again = failure.failure is not FailureClass.USER_ERROR and self._attempts[trial_id] < _MAX_ATTEMPTS
        if failure.failure is not FailureClass.OUT_OF_MEMORY:
            return RetryDecision(again, task.alone, failure.reason)
        if is_evaluating:
            self._memory_limits[trial_id] = (task.memory_limit or MEMORY_LIMIT) // 2
            return RetryDecision(again, task.alone, failure.reason)
        if task.alone:
            return RetryDecision(again=False, alone=True, reason=f"{failure.reason} ({_TRAINING_TOO_LARGE})")
        return RetryDecision(again, alone=True, reason=failure.reason)
