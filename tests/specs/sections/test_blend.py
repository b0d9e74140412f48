"""Blends of a study: further rows whose statistics combine population and mini-batch."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from bln_search.core.blend import PopulationWeight
from bln_search.core.errors import SpecError
from bln_search.core.mixed_rows import MixtureWeights
from bln_search.specs import list_planned_configurations_and_estimates, list_planned_trial_specs, parse_study
from bln_search.specs.study import StudySpec
from bln_search.specs.study_size import compute_study_size
from tests.specs.minimal_study import MINIMAL_STUDY

ROWS_BY_METHOD = {"bn": 4, "brn": 4, "mbn": 9, "bln": 16}


def with_blends(blends, arms="[{method: bln}]", more=""):
    text = MINIMAL_STUDY.replace("arms:\n  - method: bln\n", f"arms: {arms}\n")
    return f"{text}evaluation: {{blends: {blends}{more}}}\n"


def rows_of(text):
    (trial,) = list_planned_trial_specs(parse_study(text + "seeds: [0]\n"))
    return [
        (str(configuration), estimate) for configuration, estimate in list_planned_configurations_and_estimates(trial)
    ]


def test_blends_are_numbers_or_prior_weights():
    assert parse_study(with_blends("[0.1, N16, '0.5']")).evaluation.blends == (
        PopulationWeight(0.1),
        PopulationWeight(16, is_prior=True),
        PopulationWeight(0.5),
    )


def test_blended_rows_follow_the_row_of_their_population():
    assert rows_of(with_blends("[0.1, N16]", "[{method: bn}]", ", population: [frozen, moving]")) == [
        (code, f"{estimate}{weight}")
        for plain, blended in (("TT--", "BB--"), ("TF--", "BF--"), ("FT--", "FB--"))
        for estimate in ("frozen", "moving")
        for code, weight in ((plain, ""), (blended, "@0.1"), (blended, "@N16"))
    ] + [("FF--", None)]


@pytest.mark.parametrize(("method", "configurations"), ROWS_BY_METHOD.items())
def test_each_row_of_a_population_has_every_blend(method, configurations):
    rows = rows_of(with_blends("[0.25, N4]", f"[{{method: {method}}}]"))
    populations = Counter(estimate for _, estimate in rows)
    assert populations["frozen"] == populations["frozen@0.25"] == populations["frozen@N4"]
    assert len(rows) == configurations + 2 * populations["frozen"]
    assert len(set(rows)) == len(rows)


def test_method_without_mini_batch_statistics_has_no_blends():
    study = parse_study(with_blends("[0.1]", "[{method: ln}, {method: bn}]"))
    layer, batch = (trial for trial in list_planned_trial_specs(study) if trial.seed == 0)
    assert layer.mixture_weights == MixtureWeights()
    assert not any(configuration.uses_blend for configuration, _ in list_planned_configurations_and_estimates(layer))
    assert batch.mixture_weights.blends == (PopulationWeight(0.1),)


def test_moving_rows_follow_the_blends_of_their_population():
    assert rows_of(with_blends("[0.1], moving: [0.9, N16]", "[{method: bn}]")) == [
        (code, f"frozen{weight}")
        for codes in (("TT--", "BB--", "EE--"), ("TF--", "BF--", "EF--"), ("FT--", "FB--", "FE--"))
        for code, weight in zip((codes[0], codes[1], codes[2], codes[2]), ("", "@0.1", "@0.9", "@N16"), strict=True)
    ] + [("FF--", None)]


def test_moving_statistics_need_a_method_with_mini_batch_statistics():
    with pytest.raises(SpecError, match=r"moving: no arm has statistics over the mini-batch.*remove moving"):
        parse_study(with_blends("[], moving: [0.9]", "[{method: ln}]"))


def test_arms_of_a_space_may_have_another_method():
    space = "space: {arm: {kind: choice, values: [{method: ln}, {method: bn}]}}\nseeds: [0]\n"
    trials = list_planned_trial_specs(parse_study(with_blends("[0.1]", "[{method: ln}]") + space))
    assert [len(list_planned_configurations_and_estimates(trial)) for trial in trials] == [4, 7]


def test_plan_counts_blended_rows_and_names_undefined_ones():
    text = with_blends("[0.1, N16]", more=", per_slot: true, batch_sizes: [25, 50]") + "seeds: [0]\n"
    plan = compute_study_size(parse_study(text))
    assert plan.evaluations == 2 * (16 + 2 * 15)
    undefined = Counter(item.estimate for item in plan.undefined)
    assert undefined == {"frozen": 12, "frozen@0.1": 12, "frozen@N16": 12}
    assert all("B" in item.configuration[2:] for item in plan.undefined if "@" in item.estimate)


def test_schema_describes_the_weights():
    schema = StudySpec.model_json_schema()["$defs"]["EvaluationSpec"]["properties"]["blends"]["items"]
    number, prior = schema["anyOf"]
    assert number == {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    assert all(re.search(prior["pattern"], text) for text in ("N16", "N1", "N2.5"))
    assert not any(re.search(prior["pattern"], text) for text in ("0.1", "N", "N0", "n16", "N-1", "N16x"))
