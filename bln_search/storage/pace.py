"""How fast the trials of running studies are: pauses, queues and earlier runs do not count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import extract, func, select
from sqlalchemy.orm import Session

from bln_search.core.states import AttemptState
from bln_search.storage.tables import AttemptRow, TrialRow


@dataclass(frozen=True)
class Pace:
    """seconds: of a trial that has ended, in the mean. running: since when each of those under way runs."""

    seconds: float
    running: tuple[datetime, ...] = ()

    def left(self, waiting: int, now: datetime) -> float:
        """Seconds until all have ended, with `waiting` more trials and as many side by side as now."""
        begun = sum(max(self.seconds - (now - since).total_seconds(), 0.0) for since in self.running)
        return (begun + waiting * self.seconds) / max(1, len(self.running))


def paces(session: Session, study_ids: Sequence[int]) -> dict[int, Pace]:
    """Of each of these studies that has a trial with its result."""
    if not study_ids:
        return {}
    attempts = (
        select(TrialRow.study_id)
        .join(AttemptRow, AttemptRow.trial_id == TrialRow.id)
        .where(TrialRow.study_id.in_(study_ids))
    )
    took = extract("epoch", AttemptRow.ended_at) - extract("epoch", AttemptRow.started_at)
    ended = attempts.add_columns(func.avg(took)).where(AttemptRow.state == AttemptState.SUCCEEDED)
    seconds = {study_id: float(mean) for study_id, mean in session.execute(ended.group_by(TrialRow.study_id))}
    running: dict[int, list[datetime]] = {}
    under_way = attempts.add_columns(AttemptRow.started_at).where(AttemptRow.state == AttemptState.RUNNING)
    for study_id, since in session.execute(under_way):
        running.setdefault(study_id, []).append(since)
    return {study_id: Pace(mean, tuple(running.get(study_id, ()))) for study_id, mean in seconds.items()}
