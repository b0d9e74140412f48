"""Seeds: a list, or as many as a certain answer needs."""

from __future__ import annotations

import pytest

from bln_search.specs import parse_study
from bln_search.specs.study import StudySpec
from bln_search.specs.study_yaml import render_study_yaml, render_study_yaml_with_added_seeds
from bln_search.specs.trial import list_planned_trial_specs
from tests.specs.minimal_study import MINIMAL_STUDY


@pytest.mark.parametrize(
    ("seeds", "looks"),
    [
        ("{until: decided}", (3, 5, 10, 20)),
        ("{until: decided, at_most: 10}", (3, 5, 10)),
        ("{until: decided, at_most: 12}", (3, 5, 10, 12)),
        ("[0, 7]", ()),
    ],
)
def test_looks_are_planned_up_to_the_largest_number_of_seeds(seeds, looks):
    study = parse_study(f"{MINIMAL_STUDY}seeds: {seeds}\n")
    assert study.planned_looks == looks
    assert study.all_seeds == (tuple(range(looks[-1])) if looks else (0, 7))
    assert [trial.seed for trial in list_planned_trial_specs(study)] == list(study.all_seeds)
    assert parse_study(render_study_yaml(study)) == study == StudySpec.model_validate_json(study.canonical_json())


def test_seeds_that_are_added_to_an_undecided_study_are_listed():
    study = parse_study(f"{MINIMAL_STUDY}seeds: {{until: decided, at_most: 5}}\n")
    assert parse_study(render_study_yaml_with_added_seeds(study, 2)).seeds == (0, 1, 2, 3, 4, 5, 6)
    assert parse_study(render_study_yaml_with_added_seeds(study, 0)) == study
