"""Counts the trials of studies by state."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from bln_search.core.states import TrialState
from bln_search.storage.tables import TrialRow


def count_trials_by_study_and_state(
    session: Session, study_ids: Sequence[int] | None = None
) -> dict[int, dict[TrialState, int]]:
    """Trials by study and state; of all studies where `study_ids` is None."""
    query = select(TrialRow.study_id, TrialRow.state, func.count())
    if study_ids is not None:
        query = query.where(TrialRow.study_id.in_(study_ids))
    counts: dict[int, dict[TrialState, int]] = {}
    for study_id, state, count in session.execute(query.group_by(TrialRow.study_id, TrialRow.state)):
        counts.setdefault(study_id, {})[TrialState(state)] = count
    return counts
