"""Seeds: a list, or as many as a certain answer needs."""

from __future__ import annotations

import pytest

from bln_search.specs import parse_study
from bln_search.specs.study import StudySpec
from bln_search.specs.study_yaml import render_study_yaml, render_study_yaml_with_added_seeds
from bln_search.specs.trial import list_planned_trial_specs
from tests.specs.minimal_study import MINIMAL_STUDY, problems

SPACE = "space: {training.learning_rate: {kind: choice, values: [0.1, 0.2]}}\n"


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


@pytest.mark.parametrize(
    ("seeds", "problem"),
    [
        ("{until: sunday}", "seeds.until: must be 'decided', not 'sunday'"),
        ("{until: decided, at_most: 3}", "seeds.at_most: must be greater than 3, not 3"),
        ("{until: decided, at_most: 21}", "seeds.at_most: must be at most 20, not 21"),
        ("{until: decided, most: 5}", "seeds.most: unknown key; did you mean `at_most`?"),
        ("{at_most: 5}", "seeds.until: this key is missing; add it"),
        ("3", "seeds: must be a list, as in [a, b], not 3"),
    ],
)
def test_each_mistake_in_seeds_is_named_once(seeds, problem):
    (message,) = problems(f"{MINIMAL_STUDY}seeds: {seeds}\n")
    assert message.endswith(problem)


@pytest.mark.parametrize("search", ["", "search: {sampler: random, trials: 3}\n"])
def test_seeds_until_decided_refuse_a_space(search):
    (message,) = problems(f"{MINIMAL_STUDY}seeds: {{until: decided}}\n{SPACE}{search}")
    assert "need one point for each arm: list the seeds, or remove space and search" in message


def test_seeds_that_are_added_to_an_undecided_study_are_listed():
    study = parse_study(f"{MINIMAL_STUDY}seeds: {{until: decided, at_most: 5}}\n")
    assert parse_study(render_study_yaml_with_added_seeds(study, 2)).seeds == (0, 1, 2, 3, 4, 5, 6)
    assert parse_study(render_study_yaml_with_added_seeds(study, 0)) == study
