"""The specification of a study: the study file, and the trials that it defines."""

from bln_search.specs.load import load_study, parse_study
from bln_search.specs.sections.arm import ArmSpec
from bln_search.specs.sections.data import DataSpec
from bln_search.specs.sections.evaluation import EvaluationSpec
from bln_search.specs.sections.model import ModelSpec
from bln_search.specs.sections.search import SearchSpec
from bln_search.specs.sections.training import TrainingSpec
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import TrialSpec, list_planned_configurations_and_estimates, list_planned_trial_specs

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
