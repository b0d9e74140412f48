"""Estimates when running studies end, from the durations of finished attempts: pauses and queues do not count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import extract, func, select
from sqlalchemy.orm import Session

from bln_search.core.states import AttemptState
from bln_search.storage.tables import AttemptRow, TrialRow


@dataclass(frozen=True)
class TrialThroughput:
    """The speed of a study.

    Attributes:
        seconds: Mean duration of a successful attempt.
        running: Start times of the running attempts.
    """

    seconds: float
    running: tuple[datetime, ...] = ()

    def remaining_seconds(self, waiting: int, now: datetime) -> float:
        """Estimate the seconds until every trial has ended, with as many attempts side by side as now.

        Args:
            waiting: Trials that are not running yet.
            now: The present time.
        """
        running = sum(max(self.seconds - (now - since).total_seconds(), 0.0) for since in self.running)
        return (running + waiting * self.seconds) / max(1, len(self.running))


def measure_throughput(session: Session, study_ids: Sequence[int]) -> dict[int, TrialThroughput]:
    """The throughput of each of these studies in which an attempt has succeeded."""
    if not study_ids:
        return {}
    attempts = (
        select(TrialRow.study_id)
        .join(AttemptRow, AttemptRow.trial_id == TrialRow.id)
        .where(TrialRow.study_id.in_(study_ids))
    )
    duration = extract("epoch", AttemptRow.ended_at) - extract("epoch", AttemptRow.started_at)
    succeeded = attempts.add_columns(func.avg(duration)).where(AttemptRow.state == AttemptState.SUCCEEDED)
    seconds = {study_id: float(mean) for study_id, mean in session.execute(succeeded.group_by(TrialRow.study_id))}
    running: dict[int, list[datetime]] = {}
    started = attempts.add_columns(AttemptRow.started_at).where(AttemptRow.state == AttemptState.RUNNING)
    for study_id, since in session.execute(started):
        running.setdefault(study_id, []).append(since)
    return {study_id: TrialThroughput(mean, tuple(running.get(study_id, ()))) for study_id, mean in seconds.items()}
