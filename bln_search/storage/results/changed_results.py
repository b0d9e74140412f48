"""Read the results of a study that changed since they were last read, instead of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from bln_search.core.records import RowKey
from bln_search.ranking.row_results import SeedResult
from bln_search.storage.results.evaluation_rows import (
    ArmAndPoint,
    read_arm_and_point_by_trial,
    read_results_and_arms_and_points,
)
from bln_search.storage.tables import EventRow, StudyRow

MOST_TRIALS = 500
"""Trials whose results are read again; with more, all results are read."""

_WITHOUT_RESULTS = ("attempt_started", "training_resumed", "epoch")
"""Kinds of the events of trials that change no evaluation."""


@dataclass(frozen=True)
class ReadPosition:
    """Up to where the results of a study were read.

    Attributes:
        last_event: Number of the newest event at that time. Later results have later events.
        trials: Arm and point of each trial of the study that may have results.
    """

    last_event: int
    trials: Mapping[int, ArmAndPoint]


@dataclass(frozen=True)
class ChangedResults:
    """Results that changed since a position.

    Attributes:
        points: Arms and points with a changed result.
        results: All results of these, by row.
        position: Where to continue.
    """

    points: frozenset[ArmAndPoint]
    results: dict[RowKey, list[SeedResult]]
    position: ReadPosition


def read_results_with_position(
    session: Session, study_id: int, last_event: int
) -> tuple[dict[RowKey, list[SeedResult]], ReadPosition]:
    """All results of a study by row, and the position after which `read_changed_results_if_few` continues.

    Args:
        session: An open session.
        study_id: The study.
        last_event: Number of its newest event, read before: what was stored since will be read again.
    """
    results, trials = read_results_and_arms_and_points(session, study_id)
    return results, ReadPosition(last_event, trials)


def read_changed_results_if_few(session: Session, study_id: int, since: ReadPosition) -> ChangedResults | None:
    """The results that changed since a position; None where too many changed."""
    last_event = session.scalar(select(StudyRow.last_event).where(StudyRow.id == study_id)) or 0
    later = (EventRow.study_id == study_id, EventRow.number > since.last_event, EventRow.number <= last_event)
    changing = (EventRow.trial_id.is_not(None), EventRow.kind.not_in(_WITHOUT_RESULTS))
    found = session.scalars(select(EventRow.trial_id).where(*later, *changing).distinct())
    changed = {trial_id for trial_id in found if trial_id is not None}
    if len(changed) > MOST_TRIALS:
        return None
    added = sorted(changed - since.trials.keys())
    trials = {**since.trials, **read_arm_and_point_by_trial(session, study_id, added)} if added else since.trials
    points = frozenset(trials[trial_id] for trial_id in changed)
    trial_ids = [trial_id for trial_id, point in trials.items() if point in points]
    if len(trial_ids) > MOST_TRIALS:
        return None
    results = read_results_and_arms_and_points(session, study_id, trial_ids)[0] if trial_ids else {}
    return ChangedResults(points, results, ReadPosition(last_event, trials))
