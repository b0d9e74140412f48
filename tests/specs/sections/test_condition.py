"""Conditions of a study: corruptions of the images under which every network is evaluated."""

from __future__ import annotations

import pytest

from bln_search.core.corruption import Corruption
from bln_search.core.registry import CORRUPTIONS
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.specs.sections.condition import ConditionSpec
from bln_search.specs.study_size import compute_study_size
from tests.specs.minimal_study import MINIMAL_STUDY, problems

DIM = "{name: dim, corruption: contrast, severity: 5, seed: 7}"


def with_conditions(*conditions):
    lines = "".join(f"    - {condition}\n" for condition in conditions)
    return f"{MINIMAL_STUDY}evaluation:\n  conditions:\n{lines}"


def conditions_of(*conditions):
    return parse_study(with_conditions(*conditions)).evaluation.conditions


def test_condition_is_a_text_or_a_mapping():
    noise, dim = conditions_of("gaussian_noise-4", DIM)
    assert noise == ConditionSpec(name="gaussian_noise-4", corruption="gaussian_noise", severity=4, seed=0)
    assert (dim.name, dim.image_corruption, dim.seed) == ("dim", Corruption("contrast", 5), 7)


def test_severity_and_name_have_defaults():
    assert conditions_of("fog") == conditions_of("fog-3") == conditions_of("{corruption: fog}")
    assert conditions_of("{corruption: fog, severity: 1}")[0].name == "fog-1"


def test_conditions_change_the_key_of_a_trial():
    clean, noisy = (list_planned_trial_specs(parse_study(text))[0] for text in (MINIMAL_STUDY, with_conditions("fog")))
    assert clean.key != noisy.key
    assert noisy.all_condition_names == ("", "fog-3")


def test_every_condition_adds_the_clean_evaluations():
    clean, noisy = (compute_study_size(parse_study(text)) for text in (MINIMAL_STUDY, with_conditions("fog", DIM)))
    assert noisy.evaluations == 3 * clean.evaluations > 0
    assert noisy.epochs == clean.epochs


@pytest.mark.parametrize(
    ("condition", "line", "message"),
    [
        ("contrst-3", 9, "there is no corruption 'contrst'; choose one of brightness, contrast"),
        ("Contrast-3", 9, "there is no corruption 'Contrast'"),
        ("contrast-9", 9, "from 1 to 5"),
        ("{corruption: contrast, severity: 0}", 9, "severity: must be at least 1, not 0"),
        ("{corruption: contrast, severity: 2.5}", 9, "severity: must be a whole number"),
        ("{corruption: contrast, seed: -1}", 9, "seed: must be at least 0"),
        ("{corruption: contrast, sevrity: 2}", 9, "unknown key; did you mean `severity`?"),
        ("{severity: 2}", 9, "corruption: this key is missing"),
        ("fog-3", 7, "two conditions are called fog-3"),
        ("{corruption: fog, name: clean}", 9, "the name clean is reserved"),
        ("{corruption: fog, name: validation}", 9, "the name validation is reserved"),
        ("{corruption: fog, name: worst}", 9, "the name worst is reserved"),
        ("{corruption: fog, name: In fog}", 9, "a-z, 0-9"),
        ("5", 9, "must be a section"),
    ],
)
def test_invalid_condition_is_one_problem_with_its_line(condition, line, message):
    (problem,) = problems(with_conditions("fog-3", condition))
    assert problem.startswith(f"line {line}: evaluation.conditions")
    assert message in problem


def test_texts_cannot_be_corrupted():
    study = with_conditions("fog").replace("digits", "imdb").replace("{name: mlp}", "{name: lstm}")
    (problem,) = problems(study)
    assert problem.startswith("line 7: evaluation.conditions: imdb consists of token ids")


def test_plugin_with_a_number_in_its_name_is_not_split(monkeypatch):
    monkeypatch.setitem(CORRUPTIONS.plugins, "rain-2", None)
    (condition,) = conditions_of("rain-2")
    assert (condition.corruption, condition.severity, condition.name) == ("rain-2", 3, "rain-2-3")
