"""Trials that a run has claimed and not given to its executor yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from bln_search.specs.records import TrialRecord
from bln_search.worker.waiting_trials import WaitingTrials

_MAX_CLAIMS = 100
"""Trials that one transaction claims at most."""


class TrialClaimBuffer:
    """Claims as many trials in one transaction as the executor is expected to start next.

    That is at most the number that it can run besides those that run. It is the number of trials that ended since the
    last claim, or the number that started since the last tick: an executor that starts begins with one, then doubles.

    Args:
        waiting: Trials that wait.
        claim_trials: Claims trials by id; returns the token of each.
        max_parallel: The largest number of trials that the executor runs in parallel.
    """

    def __init__(
        self,
        waiting: WaitingTrials,
        claim_trials: Callable[[Sequence[int]], Sequence[int]],
        max_parallel: Callable[[], int],
    ) -> None:
        self._waiting, self._claim_trials, self._max_parallel = waiting, claim_trials, max_parallel
        self._claimed: deque[tuple[int, TrialRecord, bool]] = deque()
        self._started = self._ended = 0

    def __len__(self) -> int:
        """The number of claimed trials that have not started."""
        return len(self._claimed)

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
        return self._claimed.popleft()

    def _claim(self, running: int) -> None:
        first = self._waiting.take_next_trial(is_idle=not running)
        if first is None:
            return
        taken = [first]
        expected = max(self._ended, self._started)
        self._ended = 0
        runs_alone = first[1]
        if expected > 1 and not runs_alone:
            limit = min(expected, self._max_parallel() - running, _MAX_CLAIMS)
            while len(taken) < limit and (following := self._waiting.take_next_trial(is_idle=False)) is not None:
                taken.append(following)
        tokens = self._claim_trials([trial.id for trial, _ in taken])
        self._claimed.extend((token, trial, alone) for token, (trial, alone) in zip(tokens, taken, strict=True))
