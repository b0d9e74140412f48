"""Limits of the service on the studies it accepts."""

from __future__ import annotations

from bln_search.core.files.disk import find_disk_space_problem
from bln_search.settings import Settings
from bln_search.specs.problems import (
    Problem,
    find_data_and_model_problems,
    find_oversized_batch_problems,
    find_space_problems,
)
from bln_search.specs.study import StudySpec
from bln_search.specs.study_size import StudySize, compute_study_size
from bln_search.specs.trial import count_planned_trials, count_representative_trials
from service.http.heavy_work import HEAVY_WORK
from service.http.problems import ProblemException, make_invalid_body_problem

_QUICK_TRIALS = 100
"""Trials whose plan is computed without delaying other requests noticeably."""

_TRIALS = "arms, points and seeds make trials:"


def check_limits_and_compute_study_size(study: StudySpec, settings: Settings) -> StudySize:
    """Return the plan of a study that the service accepts.

    Raises:
        ProblemException: 422 with every reason why the service rejects the study; 503 for a large study if others wait.
    """
    if count_representative_trials(study) + count_planned_trials(study) <= _QUICK_TRIALS:
        return _check_and_compute_study_size(study, settings)
    with HEAVY_WORK.wait_for_turn():
        return _check_and_compute_study_size(study, settings)


def _check_and_compute_study_size(study: StudySpec, settings: Settings) -> StudySize:
    problems = find_data_and_model_problems(study)
    if not problems and count_planned_trials(study) <= settings.most_trials:
        problems = find_space_problems(study) or find_oversized_batch_problems(study)
    elif not problems:
        problems = [_make_over_limit_problem("seeds", _TRIALS, count_planned_trials(study), settings.most_trials)]
    if problems:
        raise make_invalid_body_problem(problems)
    plan = compute_study_size(study)
    problems = [
        _make_over_limit_problem(section, quantity, count, limit)
        for section, quantity, count, limit in (
            ("seeds", _TRIALS, plan.trials, settings.most_trials),
            ("training", "epochs of all trials:", plan.epochs, settings.most_epochs),
            ("evaluation", "evaluations of each split:", plan.evaluations, settings.most_evaluations),
            ("model", "units of a layer:", plan.largest_width, settings.largest_width),
        )
        if count > limit
    ]
    if problems:
        raise make_invalid_body_problem(problems)
    return plan


def _make_over_limit_problem(section: str, quantity: str, count: int, limit: int) -> Problem:
    return Problem((section,), f"{quantity} {count:,}; the limit of this service is {limit:,}")


def check_free_disk_space(settings: Settings, subject: str = "study") -> None:
    """Raise ProblemException (507) if the disk is nearly full. subject: what is not accepted."""
    reason = find_disk_space_problem(settings.output_folders, settings.free_bytes)
    if reason is not None:
        raise ProblemException(507, "storage-full", f"no {subject} is accepted: {reason}")
