"""Limits of the service on the studies it accepts."""

from __future__ import annotations

from bln_search.core.files.disk import disk_space_problem
from bln_search.settings import Settings
from bln_search.specs.plan import StudyPlan, plan_study
from bln_search.specs.problems import Problem, name_problems, oversized_batch_problems, space_problems
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import count_planned_trials
from service.http.problems import ProblemException, invalid_body

_TRIALS = "arms, points and seeds make trials:"


def plan_accepted_study(study: StudySpec, settings: Settings) -> StudyPlan:
    """Return the plan of a study that the service accepts.

    Raises:
        ProblemException: 422 with every reason why the service rejects the study.
    """
    problems = name_problems(study)
    if not problems and count_planned_trials(study) <= settings.most_trials:
        problems = space_problems(study) or oversized_batch_problems(study)
    elif not problems:
        problems = [_limit_problem("seeds", _TRIALS, count_planned_trials(study), settings.most_trials)]
    if problems:
        raise invalid_body(problems)
    plan = plan_study(study)
    problems = [
        _limit_problem(section, quantity, count, limit)
        for section, quantity, count, limit in (
            ("seeds", _TRIALS, plan.trials, settings.most_trials),
            ("training", "epochs of all trials:", plan.epochs, settings.most_epochs),
            ("evaluation", "evaluations of each split:", plan.evaluations, settings.most_evaluations),
            ("model", "units of a layer:", plan.largest_width, settings.largest_width),
        )
        if count > limit
    ]
    if problems:
        raise invalid_body(problems)
    return plan


def _limit_problem(section: str, quantity: str, count: int, limit: int) -> Problem:
    return Problem((section,), f"{quantity} {count:,}; the limit of this service is {limit:,}")


def check_free_space(settings: Settings, subject: str = "study") -> None:
    """Raise ProblemException (507) if the disk is nearly full. subject: what is not accepted."""
    reason = disk_space_problem(settings.result_folders, settings.free_bytes)
    if reason is not None:
        raise ProblemException(507, "storage-full", f"{reason}: no {subject} is accepted until disk space is free")
