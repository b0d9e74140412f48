"""The trials of a run that wait for an attempt or are claimed, and whether a failed trial waits for another attempt."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bln_search.core.states import FailureClass
from bln_search.evaluation.chunking import MEMORY_LIMIT
from bln_search.execution.messages import TaskFailed, TrialTask
from bln_search.specs.records import TrialRecord

_MAX_CLAIMS = 100
"""Trials that one transaction claims at most."""

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


class TrialQueue:
    """Queues of the trials of one run, and how often each was attempted in it.

    One transaction claims as many trials as the executor is expected to start next: at most the number that it can run
    besides those that run. It is the number of trials that ended since the last claim, or the number that started since
    the last tick: an executor that starts begins with one, then doubles.

    Args:
        claim_trials: Claims trials by id; returns the token of each.
        open_ids: Ids of the trials that are open when the run starts, in their order.
        load_trials: Loads trials by id.
        max_parallel: The largest number of trials that the executor runs in parallel.
    """

    def __init__(
        self,
        claim_trials: Callable[[Sequence[int]], Sequence[int]],
        open_ids: Iterable[int] = (),
        load_trials: Callable[[Sequence[int]], list[TrialRecord]] = lambda _: [],
        max_parallel: Callable[[], int] = lambda: 1,
    ) -> None:
        self._claim_trials, self._load_trials, self._max_parallel = claim_trials, load_trials, max_parallel
        self._not_loaded = deque(open_ids)
        self._trials: deque[TrialRecord] = deque()
        self._alone: deque[TrialRecord] = deque()
        """Trials that ran out of memory in training: they run again while no other trial runs."""
        self._claimed: deque[tuple[int, TrialRecord, bool]] = deque()
        self._started = self._ended = 0
        self._attempts: dict[int, int] = {}
        self._memory_limits: dict[int, int] = {}

    def __len__(self) -> int:
        """The number of trials that have not started and may run beside others, or are claimed."""
        return len(self._trials) + len(self._not_loaded) + len(self._claimed)

    @property
    def num_claimed(self) -> int:
        """The number of claimed trials that have not started."""
        return len(self._claimed)

    def add_trials(self, trials: Iterable[TrialRecord], *, alone: bool = False) -> None:
        """Append trials; `alone`: to those that run while no other trial runs."""
        (self._alone if alone else self._trials).extend(trials)

    def note_end(self) -> None:
        """A trial ended, so that another one may start."""
        self._ended += 1

    def note_no_more_trials_can_start(self) -> None:
        """The executor has started all trials that it can start now."""
        self._started = 0

    def take_next(self, running: int) -> tuple[int, TrialRecord, bool] | None:
        """The token of the next trial, the trial, and whether it must run alone; None where none may start now.

        Args:
            running: Number of trials that run.
        """
        if not self._claimed:
            self._claim(running)
        if not self._claimed:
            return None
        self._started += 1
        token, trial, alone = self._claimed.popleft()
        self._attempts[trial.id] = self._attempts.get(trial.id, 0) + 1
        return token, trial, alone

    def _claim(self, running: int) -> None:
        expected = max(self._ended, self._started)
        taken = self._take_beside_others(1)
        alone = not taken and bool(self._alone) and not running
        if alone:
            taken = [self._alone.popleft()]
        if not taken:
            return
        self._ended = 0
        if expected > 1 and not alone:
            taken += self._take_beside_others(min(expected, self._max_parallel() - running, _MAX_CLAIMS) - 1)
        tokens = self._claim_trials([trial.id for trial in taken])
        self._claimed.extend((token, trial, alone) for token, trial in zip(tokens, taken, strict=True))

    def _take_beside_others(self, count: int) -> list[TrialRecord]:
        """Take at most `count` trials; those that were open when the run started are loaded by pages."""
        taken: list[TrialRecord] = []
        while len(taken) < count and (self._trials or self._not_loaded):
            if not self._trials:
                page = [self._not_loaded.popleft() for _ in range(min(_PAGE, len(self._not_loaded)))]
                self._trials.extend(self._load_trials(page))
                continue
            taken.append(self._trials.popleft())
        return taken

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
