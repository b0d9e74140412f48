"""A study as the text of a study file."""

from __future__ import annotations

import yaml

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate
from bln_search.specs.sections.fine_tune import FineTuneSpec
from bln_search.specs.study import StudySpec
from bln_search.specs.yaml_scalars import StudyDumper


def render_study_yaml(spec: StudySpec) -> str:
    """The study as a study file; entries without a value are left out."""
    fields = spec.model_dump(mode="json", exclude_none=True)
    return str(yaml.dump(fields, Dumper=StudyDumper, sort_keys=False, allow_unicode=True, width=100))


def render_study_yaml_with_added_seeds(spec: StudySpec, added: int) -> str:
    """The study as a study file, with further seeds.

    Args:
        spec: The study.
        added: Number of seeds that are added: the smallest numbers that the study does not use.
    """
    if not added:
        return render_study_yaml(spec)
    unused = (seed for seed in range(len(spec.all_seeds) + added) if seed not in spec.all_seeds)
    seeds = (*spec.all_seeds, *(next(unused) for _ in range(added)))
    return render_study_yaml(spec.model_copy(update={"seeds": seeds}))


def render_study_yaml_of_fine_tuned_arm(spec: StudySpec, label: str, configuration: InferenceConfiguration) -> str:
    """The study as a study file with one arm, and the same arm fine-tuned under a configuration.

    Args:
        spec: The study.
        label: Label of the arm. Of another label no arm is changed.
        configuration: Under which its networks are trained further.
    """
    arms = []
    for arm in spec.arms:
        if arm.label == label:
            tuned = {
                "name": f"{label[: _MAX_LABEL - len(_TUNED)]}{_TUNED}",
                "fine_tune": FineTuneSpec(configuration=configuration),
                "population": (PopulationEstimate.FROZEN,),
            }
            arms += [arm, arm.model_copy(update=tuned)]
    return render_study_yaml(
        spec.model_copy(update={"arms": tuple(arms) or spec.arms, "name": f"{spec.name[:57]}_tuned"})
    )


_TUNED = "-tuned"
_MAX_LABEL = 32
