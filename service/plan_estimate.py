"""The plan of a study with estimates of its training time and of the size of its results."""

from __future__ import annotations

import json

from bln_search.core.enums import Split
from bln_search.specs.sections.evaluation import TrainSplitSelection
from bln_search.specs.split_sizes import count_validation_examples, list_known_split_sizes
from bln_search.specs.study import StudySpec
from bln_search.specs.study_size import StudySize
from bln_search.storage.ledger import Ledger
from service.schemas.base import project
from service.schemas.studies import PlanOut

_BYTES_PER_EXAMPLE = 4 + 1 / 8
"""An example's stored outcome: a float32 loss and one bit for whether the prediction is correct."""


def make_plan_with_estimates(study: StudySpec, plan: StudySize, ledger: Ledger) -> PlanOut:
    """Add estimates to a plan: time from earlier epochs of similar networks, bytes of the per-example outcomes."""
    epoch_seconds = ledger.trial_lists.find_median_epoch_seconds_and_count(
        study.model.name, study.data.name, fraction=study.data.fraction, batch_size=study.training.batch_size
    )
    seconds, epochs = epoch_seconds or (None, 0)
    return project(
        PlanOut,
        plan,
        seconds=None if seconds is None else round(seconds * plan.epochs, 1),
        sample_epochs=epochs,
        bytes=_estimate_outcome_bytes(study, plan.evaluations),
        digest=study.digest,
        study=json.loads(study.canonical_json()),
    )


def _estimate_outcome_bytes(study: StudySpec, evaluations: int) -> int | None:
    """Bytes of the outcomes; None if the size of the data set is unknown."""
    data, evaluation = study.data, study.evaluation
    if data.info is None or data.info.examples is None:
        return None
    published, test = data.info.examples
    validation = count_validation_examples(data, published) * data.fraction
    clean = evaluations / (1 + len(evaluation.conditions))
    train = _count_evaluated_train_examples(study, validation) * clean
    return round((evaluations * (validation + test) + train) * _BYTES_PER_EXAMPLE)


def _count_evaluated_train_examples(study: StudySpec, validation: float) -> float:
    """The training examples on which each network is evaluated, given the number of validation examples."""
    evaluation = study.evaluation
    if Split.TRAIN not in evaluation.evaluated_splits:
        return 0
    train = list_known_split_sizes(study.data).get(Split.TRAIN, 0)
    return train if evaluation.train_examples is TrainSplitSelection.ALL else min(train, validation)
