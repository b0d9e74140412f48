"""Per-example outcomes, read for a comparison."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Engine, select

from bln_search.core.records import Outcomes
from bln_search.storage.engine import reading
from bln_search.storage.packing import unpack
from bln_search.storage.tables import EvaluationRow, OutcomesRow

_AT_ONCE = 200
"""Evaluations read in one query."""


def outcomes_of(engine: Engine, evaluation_ids: Sequence[int]) -> dict[int, Outcomes]:
    """The outcomes of these evaluations, those that have any."""
    found: dict[int, Outcomes] = {}
    columns = (EvaluationRow.id, EvaluationRow.n, OutcomesRow.losses, OutcomesRow.correct)
    for start in range(0, len(evaluation_ids), _AT_ONCE):
        wanted = list(evaluation_ids[start : start + _AT_ONCE])
        query = select(*columns).join(OutcomesRow, OutcomesRow.evaluation_id == EvaluationRow.id)
        with reading(engine) as session:
            for number, n, losses, correct in session.execute(query.where(EvaluationRow.id.in_(wanted))):
                found[number] = unpack(losses, correct, n)
    return found
