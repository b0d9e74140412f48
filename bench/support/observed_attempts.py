"""Attempts of a ledger that record when epochs were committed and leases renewed."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.support.null_executor import NullExecutor
from bln_search.storage.database import Database
from bln_search.storage.leases import LEASE
from bln_search.storage.trials.attempts import AttemptRepository
from bln_search.storage.trials.reports import AttemptReport, EpochsReport, EvaluationReport


class ObservedAttempts(AttemptRepository):
    """Records what `NullExecutor` cannot see.

    Attributes:
        latencies: Seconds from the end of each epoch to its commit.
        renewed_at: When the lease of each running attempt was renewed last, or claimed (monotonic clock, seconds).
        longest_gap: Largest number of seconds between two renewals of the lease of an attempt, or from its claim.
        missed: Attempts whose lease expired before it was renewed or the attempt ended.
    """

    def __init__(self, database: Database, executor: NullExecutor) -> None:
        super().__init__(database)
        self.executor = executor
        self.latencies: list[float] = []
        self.renewed_at: dict[int, float] = {}
        self.longest_gap = 0.0
        self.missed: set[int] = set()

    def claim_trials(self, trial_ids: Sequence[int], worker: str) -> Sequence[int]:
        """Claim trials; their leases begin."""
        tokens = super().claim_trials(trial_ids, worker)
        self.renewed_at |= dict.fromkeys(tokens, time.monotonic())
        return tokens

    def record_attempt_reports(self, reports: Sequence[AttemptReport]) -> None:
        """Record reports, and note how long after the ends of their epochs; leases of ended attempts end."""
        super().record_attempt_reports(reports)
        now = time.monotonic()
        for report in reports:
            if isinstance(report, EpochsReport):
                ends = self.executor.ends[report.token]
                self.latencies += [now - end for end in ends[: len(report.records)]]
                del ends[: len(report.records)]
            elif isinstance(report, EvaluationReport):
                self._note_gap(report.token)
                del self.renewed_at[report.token]

    def record_heartbeats(self, tokens: Sequence[int], study_id: int | None = None, runner: str | None = None) -> None:
        """Renew leases, and note for how long they were not."""
        super().record_heartbeats(tokens, study_id, runner)
        for token in tokens:
            self._note_gap(token)
            self.renewed_at[token] = time.monotonic()

    def _note_gap(self, token: int) -> None:
        gap = time.monotonic() - self.renewed_at[token]
        self.longest_gap = max(self.longest_gap, gap)
        if gap > LEASE.total_seconds():
            self.missed.add(token)
