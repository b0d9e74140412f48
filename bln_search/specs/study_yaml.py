"""A study as the text of a study file."""

from __future__ import annotations

import yaml

from bln_search.specs.study import StudySpec


def study_yaml(spec: StudySpec) -> str:
    """The study as a study file; entries without a value are left out."""
    fields = spec.model_dump(mode="json", exclude_none=True)
    return str(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=100))


def study_yaml_with_seeds(spec: StudySpec, added: int) -> str:
    """The study as a study file, with further seeds.

    Args:
        spec: The study.
        added: Number of seeds that are added: the smallest numbers that the study does not use.
    """
    unused = (seed for seed in range(len(spec.seeds) + added) if seed not in spec.seeds)
    seeds = (*spec.seeds, *(next(unused) for _ in range(added)))
    return study_yaml(spec.model_copy(update={"seeds": seeds}))
