"""Blends of a study: further rows whose statistics combine population and mini-batch."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from bln_search.core.blend import PopulationWeight
from bln_search.specs import list_planned_configurations_and_estimates, list_planned_trial_specs, parse_study
from bln_search.specs.sections.evaluation import EvaluationSpec
from bln_search.specs.study import StudySpec
from bln_search.specs.study_size import compute_study_size
from tests.specs.minimal_study import MINIMAL_STUDY, problems

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


def test_other_spellings_of_a_blend_are_the_same_study():
    forms = ("[0.1, N16]", "['0.1', 'N16.0']", "[1.0e-1, N1.6e1]")
    assert len({parse_study(with_blends(form)).digest for form in forms}) == 1


def test_stored_study_with_blends_is_read_unchanged():
    study = parse_study(with_blends("[0.1, N16]"))
    assert StudySpec.model_validate_json(study.canonical_json()) == study
    assert study.model_dump(mode="json")["evaluation"]["blends"] == [0.1, "N16"]


def test_studies_without_blends_keep_their_identity():
    assert parse_study(with_blends("[]")).digest == parse_study(MINIMAL_STUDY).digest
    assert "blends" not in list_planned_trial_specs(parse_study(MINIMAL_STUDY))[0].canonical_json()
    assert "blends" not in EvaluationSpec().model_dump()


def test_blends_change_the_key_of_a_trial():
    plain, blended = (list_planned_trial_specs(parse_study(text))[0] for text in (MINIMAL_STUDY, with_blends("[0.1]")))
    assert plain.key != blended.key


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
    assert layer.blend_weights == ()
    assert not any(configuration.uses_blend for configuration, _ in list_planned_configurations_and_estimates(layer))
    assert batch.blend_weights == (PopulationWeight(0.1),)


@pytest.mark.parametrize(
    ("blends", "message"),
    [
        ("[1.0]", "evaluation.blends.0: '1' is not the weight of a blend: give a number between 0 and 1"),
        ("[0.5, 0]", "evaluation.blends.1: '0' is not the weight of a blend"),
        ("[-0.1]", "evaluation.blends.0: '-0.1' is not the weight of a blend"),
        ("[.inf]", "is not the weight of a blend"),
        ("[N0]", "'N0' is not the weight of a blend"),
        ("[N-4]", "'N-4' is not the weight of a blend"),
        ("[N]", "'N' is not the weight of a blend"),
        ("[n16]", "'n16' is not the weight of a blend"),
        ("[[0.1]]", "[0.1] is not the weight of a blend"),
        ("[yes]", "blends does not take yes or no"),
        ("0.1", "must be a list"),
        ("[0.1, 0.10]", "blends has the value 0.1 more than once: write each value once"),
        ("[N16, N16.0]", "blends has the value N16 more than once: write each value once"),
    ],
)
def test_impossible_blend_is_one_error(blends, message):
    (problem,) = problems(with_blends(blends))
    assert message in problem


def test_blends_need_statistics_over_the_mini_batch():
    (problem,) = problems(with_blends("[0.1]", "[{method: ln}]"))
    assert "no arm has statistics over the mini-batch" in problem
    assert "remove blends, or add an arm with bn, bln, mbn or brn" in problem


def test_arms_of_a_space_may_have_another_method():
    space = "space: {arm: {kind: choice, values: [{method: ln}, {method: bn}]}}\nseeds: [0]\n"
    trials = list_planned_trial_specs(parse_study(with_blends("[0.1]", "[{method: ln}]") + space))
    assert [len(list_planned_configurations_and_estimates(trial)) for trial in trials] == [4, 7]


def test_blend_has_no_weight_in_training():
    (problem,) = problems(MINIMAL_STUDY.replace("method: bln", "{method: bln, judged_under: BBFF}"))
    assert "judged_under BBFF blends statistics" in problem


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
