"""The specification of a study: the study file, and the trials that it defines.

A name is loaded when it is first used, since a list of studies loads none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bln_search.specs.load import load_study, parse_study
    from bln_search.specs.sections.arm import ArmSpec
    from bln_search.specs.sections.data import DataSpec
    from bln_search.specs.sections.evaluation import EvaluationSpec
    from bln_search.specs.sections.model import ModelSpec
    from bln_search.specs.sections.search import SearchSpec
    from bln_search.specs.sections.training import TrainingSpec
    from bln_search.specs.study import StudySpec
    from bln_search.specs.trial import TrialSpec, list_planned_configurations_and_estimates, list_planned_trial_specs

_HOMES = {
    "ArmSpec": "sections.arm",
    "DataSpec": "sections.data",
    "EvaluationSpec": "sections.evaluation",
    "ModelSpec": "sections.model",
    "SearchSpec": "sections.search",
    "StudySpec": "study",
    "TrainingSpec": "sections.training",
    "TrialSpec": "trial",
    "list_planned_configurations_and_estimates": "trial",
    "list_planned_trial_specs": "trial",
    "load_study": "load",
    "parse_study": "load",
}
__all__ = [
    "ArmSpec",
    "DataSpec",
    "EvaluationSpec",
    "ModelSpec",
    "SearchSpec",
    "StudySpec",
    "TrainingSpec",
    "TrialSpec",
    "list_planned_configurations_and_estimates",
    "list_planned_trial_specs",
    "load_study",
    "parse_study",
]


def __getattr__(name: str) -> Any:
    """The names of the sections, of the study file and of its trials. Raises AttributeError for another name."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
