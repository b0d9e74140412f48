"""How much of its epochs each trial without a result has finished, in any of its attempts: progress never decreases."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from bln_search.core.states import ENDED, AttemptState
from bln_search.storage.tables import AttemptRow, EventRow, TrialRow

_WITHOUT_RESULT = (AttemptState.RUNNING, AttemptState.LOST, AttemptState.FAILED)


def sum_finished_fractions_by_study(session: Session, study_ids: Sequence[int]) -> dict[int, float]:
    """The sum of the finished parts of the trials without a result, by study; a study without such a trial is left out.

    The part of a trial is that of the attempt that came furthest: an attempt that begins anew, because no state of the
    training was saved, counts from the epoch on at which it comes further.
    """
    if not study_ids:
        return {}
    attempted = select(AttemptRow.trial_id).where(AttemptRow.state.in_(_WITHOUT_RESULT))
    unfinished = (
        TrialRow.study_id.in_(study_ids),
        TrialRow.state.not_in(ENDED),
        TrialRow.id.in_(attempted),
    )
    furthest = _read_furthest_epochs(session, unfinished)
    sums: dict[int, float] = defaultdict(float)
    for trial_id, study_id, spec in session.execute(
        select(TrialRow.id, TrialRow.study_id, TrialRow.spec).where(*unfinished)
    ):
        values = json.loads(spec)
        epochs = values.get("horizon") or values["training"]["epochs"]
        sums[study_id] += min(1.0, furthest.get(trial_id, 0) / epochs)
    return dict(sums)


def _read_furthest_epochs(session: Session, conditions: Sequence[ColumnElement[bool]]) -> dict[int, int]:
    """The largest epoch of each trial that fulfils the conditions."""
    query = (
        select(EventRow.trial_id, func.max(EventRow.data["epoch"].as_integer()))
        .where(EventRow.trial_id.in_(select(TrialRow.id).where(*conditions)), EventRow.kind == "epoch")
        .group_by(EventRow.trial_id)
    )
    return {trial_id: epoch for trial_id, epoch in session.execute(query) if trial_id is not None}
