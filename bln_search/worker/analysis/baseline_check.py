"""Checks whether arms do better than the class-prior baseline on the study's data."""

from __future__ import annotations

import logging

from bln_search.core.class_prior import ClassPriorBaseline, compute_class_prior_baseline
from bln_search.core.errors import BlnSearchError
from bln_search.core.tasks import TaskName
from bln_search.execution.environment import ExecutionEnvironment, load_and_prepare_data
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.ranking.selection.baseline_check import ArmsNoBetterThanPrior, find_arms_no_better_than_prior
from bln_search.specs.study import StudySpec

_log = logging.getLogger(__name__)


def find_arms_not_beating_class_prior(
    board: Leaderboard, study: StudySpec, environment: ExecutionEnvironment
) -> ArmsNoBetterThanPrior | None:
    """The arms that are no better than this baseline on the split that decides the ranking.

    None without the data, and for another task than classification.

    External results include the baseline of their data.
    """
    if study.external is not None:
        prior = study.external.class_prior
        baseline = None if prior is None else ClassPriorBaseline(prior.loss, prior.accuracy)
        return find_arms_no_better_than_prior(board, baseline)
    if study.resolved_task.name is not TaskName.CLASSIFICATION:
        return None
    data = study.data
    try:
        targets = load_and_prepare_data(data, environment.data, environment.cache, "cpu").splits[board.ranked_on][1]
    except BlnSearchError as error:
        _log.info("the class-prior baseline is not known: %s", error)
        return None
    return find_arms_no_better_than_prior(board, compute_class_prior_baseline(targets.cpu().bincount().tolist()))
