"""Attempts of a ledger that record when epochs were committed and leases renewed."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.support.null_executor import NullExecutor
from bln_search.core.records import EpochRecord
from bln_search.storage.database import Database
from bln_search.storage.leases import LEASE
from bln_search.storage.trials.attempts import AttemptRepository


class ObservedAttempts(AttemptRepository):
    """Records what `NullExecutor` cannot see.

    Attributes:
        latencies: Seconds from the end of each epoch to its commit.
        renewal_gaps: Seconds between two renewals of the lease of an attempt, or from its claim.
        missed: Attempts whose lease expired before it was renewed or the attempt ended.
    """

    def __init__(self, database: Database, executor: NullExecutor) -> None:
        super().__init__(database)
        self.executor = executor
        self.latencies: list[float] = []
        self.renewed_at: dict[int, float] = {}
        self.longest_gap = 0.0
        self.missed: set[int] = set()

    def claim_trial(self, trial_id: int, worker: str) -> int:
        """Claim a trial; its lease begins."""
        token = super().claim_trial(trial_id, worker)
        self.renewed_at[token] = time.monotonic()
        return token

    def record_epochs(self, token: int, records: Sequence[EpochRecord]) -> None:
        """Record epochs, and note how long after their end."""
        super().record_epochs(token, records)
        now, ends = time.monotonic(), self.executor.ends[token]
        self.latencies += [now - end for end in ends[: len(records)]]
        del ends[: len(records)]

    def record_heartbeats(self, tokens: list[int], study_id: int | None = None, runner: str | None = None) -> None:
        """Renew leases, and note for how long they were not."""
        super().record_heartbeats(tokens, study_id, runner)
        for token in tokens:
            self._note_gap(token)
            self.renewed_at[token] = time.monotonic()

    def finish_trial(self, token: int, *arguments: object) -> None:  # type: ignore[override]
        """Finish a trial; its lease ends."""
        super().finish_trial(token, *arguments)  # type: ignore[arg-type]
        self._note_gap(token)
        del self.renewed_at[token]

    def _note_gap(self, token: int) -> None:
        gap = time.monotonic() - self.renewed_at[token]
        self.longest_gap = max(self.longest_gap, gap)
        if gap > LEASE.total_seconds():
            self.missed.add(token)
