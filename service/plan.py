"""How long a study will take and how much room it needs, as far as that is known."""

from __future__ import annotations

import json

from sqlalchemy import Engine

from bln_search.core.enums import Split
from bln_search.specs.data import DataSpec
from bln_search.specs.plan import Plan
from bln_search.specs.sizes import EXAMPLES, held_out
from bln_search.specs.study import StudySpec
from bln_search.storage.browse import seconds_an_epoch
from service.schemas import PlanOut, UndefinedEvaluation

_BYTES = 4 + 1 / 8
"""Of an example's outcome: its loss, and one bit for whether it was right."""


def plan_view(study: StudySpec, plan: Plan, engine: Engine) -> PlanOut:
    """The plan with its time and room."""
    pace = seconds_an_epoch(
        engine,
        study.model.name,
        study.data.name,
        fraction=study.data.fraction,
        batch_size=study.training.batch_size,
    )
    return PlanOut(
        trials=plan.trials,
        sampled=plan.sampled,
        evaluations=plan.evaluations,
        epochs=plan.epochs,
        undefined=[UndefinedEvaluation.model_validate(cell) for cell in plan.undefined],
        seconds=None if pace is None else round(pace[0] * plan.epochs, 1),
        seconds_from=0 if pace is None else pace[1],
        bytes=_bytes(study.data, plan.evaluations),
        digest=study.digest,
        study=json.loads(study.canonical),
    )


def _bytes(data: DataSpec, evaluations: int) -> int | None:
    known = EXAMPLES.get(data.name)
    if known is None:
        return None
    held = held_out(data, known[Split.TRAIN])
    return round(evaluations * (held * data.fraction + known[Split.TEST]) * _BYTES)
