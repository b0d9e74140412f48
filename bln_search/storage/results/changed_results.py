"""Read the results of a study that changed since they were last read, instead of all of them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import Text, cast, select
from sqlalchemy.orm import Session

from bln_search.core.records import RowKey
from bln_search.ranking.row_results import SeedResult
from bln_search.specs.records import encode_point
from bln_search.storage.results.evaluation_rows import read_results_by_leaderboard_row
from bln_search.storage.tables import EventRow, StudyRow, TrialRow

ArmAndPoint = tuple[str, str]
"""Label of an arm, and a point as JSON; empty without a space."""

MOST_TRIALS = 500
"""Trials whose results are read again; with more, all results are read."""

_WITHOUT_RESULTS = ("attempt_started", "epoch")
"""Kinds of the events of trials that change no evaluation."""


@dataclass(frozen=True)
class ReadPosition:
    """Up to where the results of a study were read.

    Attributes:
        last_event: Number of the newest event at that time. Later results have later events.
        trials: Arm and point of each trial of the study.
    """

    last_event: int
    trials: dict[int, ArmAndPoint]


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


def find_read_position(session: Session, study_id: int) -> ReadPosition:
    """The present position; call it before the results are read."""
    last_event = session.scalar(select(StudyRow.last_event).where(StudyRow.id == study_id)) or 0
    return ReadPosition(last_event, _read_points_of_trials(session, study_id, after=0))


def read_changed_results(session: Session, study_id: int, since: ReadPosition) -> ChangedResults | None:
    """The results that changed since a position; None where too many changed."""
    last_event = session.scalar(select(StudyRow.last_event).where(StudyRow.id == study_id)) or 0
    later = (EventRow.study_id == study_id, EventRow.number > since.last_event, EventRow.number <= last_event)
    changing = (EventRow.trial_id.is_not(None), EventRow.kind.not_in(_WITHOUT_RESULTS))
    changed = set(session.scalars(select(EventRow.trial_id).where(*later, *changing).distinct()))
    trials = since.trials
    if not changed <= trials.keys():
        trials = trials | _read_points_of_trials(session, study_id, after=max(trials, default=0))
    points = frozenset(trials[trial_id] for trial_id in changed if trial_id is not None)
    trial_ids = [trial_id for trial_id, point in trials.items() if point in points]
    if len(trial_ids) > MOST_TRIALS:
        return None
    results = read_results_by_leaderboard_row(session, study_id, trial_ids) if trial_ids else {}
    return ChangedResults(points, results, ReadPosition(last_event, trials))


def _read_points_of_trials(session: Session, study_id: int, after: int) -> dict[int, ArmAndPoint]:
    """Arm and point of each trial whose id is above `after`."""
    query = select(TrialRow.id, TrialRow.arm, cast(TrialRow.parameters, Text))
    rows = session.execute(query.where(TrialRow.study_id == study_id, TrialRow.id > after))
    points: dict[tuple[str, str | None], ArmAndPoint] = {}
    trials = {}
    for trial_id, arm, parameters in rows:
        point = points.get((arm, parameters))
        if point is None:
            encoded = encode_point(None if parameters is None else json.loads(parameters))
            point = points[arm, parameters] = (arm, encoded)
        trials[trial_id] = point
    return trials
