"""Digests of studies and keys of trials: stored ones stay, and every option that changes an outcome changes them."""

from __future__ import annotations

import pytest

from bln_search.specs import ArmSpec, EvaluationSpec, ModelSpec, list_planned_trial_specs, parse_study
from bln_search.specs.sections.layer_search import LayerSearchSpec
from bln_search.specs.study import StudySpec
from tests.specs.minimal_study import MINIMAL_STUDY, study

STORED = {
    MINIMAL_STUDY: "9283a4db064c287d1be4d7d51b712ad6bbfb1949890ba1049e8a20f3a613f882",
    MINIMAL_STUDY.replace("name: study", "name: s"): "8efd9ad4604d6312de691551e120115be2456aeb19d545996bcbeaade00f78b9",
}
WITH_PLACEMENT = """name: study
data: {name: digits}
model: {name: mlp, placement: before}
arms: [{method: bn}, {method: none}]
training: {}
seeds: [0]
"""


@pytest.mark.parametrize(("text", "digest"), STORED.items())
def test_a_stored_study_has_its_digest(text, digest):
    assert parse_study(text).digest == digest


def test_a_stored_trial_has_its_key():
    spec = parse_study(WITH_PLACEMENT)
    assert spec.digest == "312db021f2bb063fdef993f32389e9bb621b0ae04b6cf21894f7d7c9e973e93d"
    assert [trial.key for trial in list_planned_trial_specs(spec)] == [
        "9e3ae246f32033422161e68147b9efa7",
        "a480b150a15d6cb64b307b8226c0b0f3",
    ]


def test_sections_without_later_keys_are_written_as_before():
    arm_keys = {"method", "name", "semantics", "epsilon", "momentum", "judged_under", "population"}
    assert set(ArmSpec(method="bln").model_dump(mode="json")) == arm_keys
    assert ModelSpec(name="lstm").model_dump(mode="json") == {"name": "lstm", "widths": None}
    assert (
        not {"blends", "moving", "conditions", "lengths", "splits", "train_examples"}
        & EvaluationSpec().model_dump().keys()
    )


def first_trial_key(spec):
    return list_planned_trial_specs(spec)[0].key


@pytest.mark.parametrize(
    ("default", "other"),
    [
        ({"arms": "[{method: bln, axes: position, affine: channel}]"}, {"arms": "[{method: bln, axes: layer}]"}),
        ({"arms": "[{method: bln, from_weights: false}]"}, {"arms": "[{method: bln, from_weights: true}]"}),
        ({"arms": "[{method: bln, fine_tune: null}]"}, {"arms": "[{method: bln, fine_tune: {configuration: TTFF}}]"}),
        ({"training": "{precision: float32}"}, {"training": "{precision: tf32}"}),
        ({"training": "{compile: false}"}, {"training": "{compile: true}"}),
        ({"training": "{fused_norms: false}"}, {"training": "{fused_norms: true}"}),
        ({"training": "{epoch_splits: [validation]}"}, {"training": "{epoch_splits: [validation, test]}"}),
        (
            {"training": "{initialization: null}"},
            {"training": "{initialization: {preserve_function: false, statistics: bn}}"},
        ),
        ({"evaluation": "{blends: []}"}, {"evaluation": "{blends: [0.1, N16]}"}),
        ({"evaluation": "{conditions: []}"}, {"evaluation": "{conditions: [fog]}"}),
        ({"evaluation": "{splits: []}"}, {"evaluation": "{splits: [train], train_examples: as_validation}"}),
    ],
    ids=lambda sections: next(iter(sections.values())),
)
def test_a_later_key_changes_trials_unless_it_has_its_default(default, other):
    plain, changed = study(), study(**other)
    assert study(**default).canonical_json() == plain.canonical_json()
    assert changed.digest != plain.digest
    assert first_trial_key(changed) != first_trial_key(plain)
    assert StudySpec.model_validate_json(changed.canonical_json()) == changed


@pytest.mark.parametrize(
    "forms",
    [
        [f"{{blends: {form}}}" for form in ("[0.1, N16]", "['0.1', 'N16.0']", "[1.0e-1, N1.6e1]")],
        [
            f"{{conditions: [{form}]}}"
            for form in ("fog", "fog-3", "{corruption: fog}", "{name: fog-3, corruption: fog, severity: 3, seed: 0}")
        ],
    ],
    ids=["blends", "conditions"],
)
def test_other_spellings_are_the_same_study(forms):
    assert len({study(evaluation=form).digest for form in forms}) == 1


def test_naming_the_task_of_the_data_changes_only_the_digest():
    plain, named = (study(data="{name: diabetes}", **task) for task in ({}, {"task": "{name: regression}"}))
    assert plain.resolved_task == named.resolved_task
    assert "task" not in plain.canonical_json()
    assert plain.digest != named.digest


def test_the_search_of_layers_has_a_digest_of_its_own():
    assert "layers" not in study().canonical_json()
    assert study(layers="{}").digest != study().digest
    assert LayerSearchSpec.model_validate({"folds": 2, "scope": "per_layer"}).digest == LayerSearchSpec().digest
    others = ({"folds": 3}, {"search": "beam"}, {"estimate": "frozen"}, {"scope": "global"}, {"keep": 5})
    assert len({LayerSearchSpec(**options).digest for options in ({}, *others)}) == 6


def test_the_order_of_groups_does_not_matter():
    """A layer may fit one group only, and a stored study has its keys in the order of the alphabet."""
    forward, backward = (
        LayerSearchSpec(scope="groups", groups=groups)
        for groups in ({"a": ("x*",), "b": ("y",)}, {"b": ("y",), "a": ("x*",)})
    )
    assert forward.digest == backward.digest == LayerSearchSpec.model_validate_json(forward.model_dump_json()).digest


def test_keys_do_not_depend_on_the_order_in_the_file():
    reordered = MINIMAL_STUDY.replace(
        "data: {name: digits}\nmodel: {name: mlp}", "model: {name: mlp}\ndata: {name: digits}"
    )
    first, second = parse_study(MINIMAL_STUDY), parse_study(reordered)
    assert first.digest == second.digest
    assert first_trial_key(first) == first_trial_key(second)
