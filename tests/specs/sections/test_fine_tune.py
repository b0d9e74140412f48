"""The key `fine_tune` of an arm."""

from __future__ import annotations

import json

import pytest

from bln_search.core.enums import PopulationRefresh
from bln_search.core.errors import SpecError
from bln_search.specs import list_planned_trial_specs, parse_study

STUDY = """name: study
data: {name: digits}
model: {name: mlp}
arms: [{method: bln}, {method: bln, name: tuned, fine_tune: {%s}}]
seeds: [0]
%s"""


def study(options="", rest=""):
    return parse_study(STUDY % (options, rest), source="study.yaml")


def test_defaults_are_three_epochs_with_a_tenth_of_the_learning_rate():
    spec = study().arms[1].fine_tune
    assert (spec.epochs, spec.learning_rate_factor, spec.refresh) == (3, 0.1, PopulationRefresh.EPOCH)
    assert spec.configuration is None


def test_an_arm_without_it_has_the_digest_of_earlier_versions():
    plain, tuned = list_planned_trial_specs(study("configuration: TTFF"))
    assert "fine_tune" not in json.loads(plain.canonical_json())["arm"]
    assert json.loads(tuned.canonical_json())["arm"]["fine_tune"]["configuration"] == "TTFF"
    assert plain.key != tuned.key


@pytest.mark.parametrize(
    ("options", "rest", "message"),
    [
        ("configuration: TT--", "", "configuration TT-- is not one of bln"),
        ("configuration: BBFF", "", "configuration BBFF is not one of bln without blends"),
        ("epochs: 0", "", "arms.1.fine_tune.epochs"),
        ("refresh: always", "", "arms.1.fine_tune.refresh"),
        ("", "evaluation: {population: [frozen, moving]}", "arm tuned: fine_tune changes the weights"),
    ],
)
def test_invalid_values_are_an_error(options, rest, message):
    with pytest.raises(SpecError) as error:
        study(options, rest)
    assert any(message in problem for problem in error.value.problems), error.value.problems
