"""The class-prior baseline of the study's data."""

from __future__ import annotations

import logging

from bln_search.core.class_prior import ClassPriorBaseline, compute_class_prior_baseline
from bln_search.core.enums import Split
from bln_search.core.errors import BlnSearchError
from bln_search.core.tasks import TaskName
from bln_search.execution.environment import ExecutionEnvironment, load_and_prepare_data
from bln_search.specs.study import StudySpec

_log = logging.getLogger(__name__)


def find_class_prior_of_study(
    study: StudySpec, split: Split, environment: ExecutionEnvironment
) -> ClassPriorBaseline | None:
    """Loss and accuracy of predicting the class frequencies of a split.

    None without the data, and for another task than classification. External results include that of their data.
    """
    if study.external is not None:
        prior = study.external.class_prior
        return None if prior is None else ClassPriorBaseline(prior.loss, prior.accuracy)
    if study.resolved_task.name is not TaskName.CLASSIFICATION:
        return None
    try:
        targets = load_and_prepare_data(study.data, environment.data, environment.cache, "cpu").splits[split][1]
    except BlnSearchError as error:
        _log.info("the class-prior baseline is not known: %s", error)
        return None
    return compute_class_prior_baseline(targets.cpu().bincount().tolist())
