"""A minimal study file, and the problems of an invalid one."""

from __future__ import annotations

import pytest

from bln_search.core.errors import SpecError
from bln_search.specs import parse_study

MINIMAL_STUDY = """name: study
data: {name: digits}
model: {name: mlp}
arms:
  - method: bln
"""


def problems(text):
    with pytest.raises(SpecError) as error:
        parse_study(text, source="study.yaml")
    return error.value.problems


def study_text(more="", **sections):
    """A small study with other sections, each as YAML in one line."""
    usual = {"name": "study", "data": "{name: digits}", "model": "{name: mlp}", "arms": "[{method: bln}]"}
    return "".join(f"{name}: {value}\n" for name, value in {**usual, **sections}.items()) + more


def study(more="", **sections):
    return parse_study(study_text(more, **sections), source="study.yaml")
