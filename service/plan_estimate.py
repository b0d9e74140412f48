"""The plan of a study with estimates of its training time and of the size of its results."""

from __future__ import annotations

import json

from bln_search.core.enums import Split
from bln_search.specs.plan import StudyPlan
from bln_search.specs.sections.data import DataSpec
from bln_search.specs.sizes import EXAMPLES, count_validation_examples
from bln_search.specs.study import StudySpec
from bln_search.storage.ledger import Ledger
from service.schemas.studies import PlanOut, UndefinedEvaluation

_BYTES_PER_EXAMPLE = 4 + 1 / 8
"""An example's stored outcome: a float32 loss and one bit for whether the prediction is correct."""


def plan_with_estimates(study: StudySpec, plan: StudyPlan, ledger: Ledger) -> PlanOut:
    """Add estimates to a plan: time from earlier epochs of similar networks, bytes of the per-example outcomes."""
    epoch_seconds = ledger.listing.measure_epoch_seconds(
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
        seconds=None if epoch_seconds is None else round(epoch_seconds[0] * plan.epochs, 1),
        sample_epochs=0 if epoch_seconds is None else epoch_seconds[1],
        bytes=_outcome_bytes(study.data, plan.evaluations),
        digest=study.digest,
        study=json.loads(study.canonical_json()),
    )


def _outcome_bytes(data: DataSpec, evaluations: int) -> int | None:
    """Bytes of the outcomes; None if the size of the data set is unknown."""
    examples = EXAMPLES.get(data.name)
    if examples is None:
        return None
    validation = count_validation_examples(data, examples[Split.TRAIN]) * data.fraction
    return round(evaluations * (validation + examples[Split.TEST]) * _BYTES_PER_EXAMPLE)
