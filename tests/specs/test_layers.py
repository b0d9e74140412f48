"""The section `layers` of a study."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from bln_search.core.enums import LayerScope, LayerSearchAlgorithm, PopulationEstimate
from bln_search.core.errors import SpecError
from bln_search.specs import parse_study
from bln_search.specs.sections.layer_search import LayerSearchSpec

GOOD = """name: study
data: {name: digits}
model: {name: mlp}
arms:
  - method: bln
"""
BEFORE = "9283a4db064c287d1be4d7d51b712ad6bbfb1949890ba1049e8a20f3a613f882"
"""Digest of that study before studies could ask about layers."""


def problems(text):
    with pytest.raises(SpecError) as error:
        parse_study(text, source="study.yaml")
    return error.value.problems


def test_digest_without_layers_is_unchanged():
    study = parse_study(GOOD)
    assert "layers" not in json.loads(study.canonical_json())
    assert study.digest == BEFORE
    asking = parse_study(f"{GOOD}layers: {{}}\n")
    assert json.loads(asking.canonical_json())["layers"]["search"] == "exact"
    assert asking.digest != study.digest


def test_defaults_are_an_exact_search_of_every_layer():
    layers_spec = parse_study(f"{GOOD}layers: {{}}\n").layers
    assert layers_spec == LayerSearchSpec()
    assert (layers_spec.scope, layers_spec.search, layers_spec.estimate) == (
        LayerScope.PER_LAYER,
        LayerSearchAlgorithm.EXACT,
        None,
    )
    assert (layers_spec.evaluations, layers_spec.folds, layers_spec.keep, layers_spec.width, layers_spec.restarts) == (
        2_000,
        2,
        1_000,
        8,
        4,
    )


def test_every_option_is_parsed():
    text = (
        "layers: {scope: groups, groups: {early: ['features.*'], late: ['classifier.1', 'classifier.4']}, search: tpe,"
        " estimate: epoch, evaluations: 16, folds: 20, keep: 1, width: 3, restarts: 9}\n"
        "evaluation: {population: [frozen, epoch]}\n"
    )
    study = parse_study(GOOD + text)
    assert study.layers.groups == {"early": ("features.*",), "late": ("classifier.1", "classifier.4")}
    assert study.layers.estimate is PopulationEstimate.EPOCH
    assert parse_study(study.canonical_json()) == study


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("scope: groups", "layers: `groups` and the scope `groups` belong together: give both or neither"),
        ("groups: {a: ['*']}", "layers: `groups` and the scope `groups` belong together: give both or neither"),
        ("scope: global, groups: {a: ['*']}", "`groups` and the scope `groups` belong together"),
        ("scope: groups, groups: {}", "layers.groups: must have at least 1 entry"),
        ("scope: groups, groups: {a: []}", "layers: the group a has no pattern: name its layers"),
        ("scope: groups, groups: {a: ['']}", "layers.groups.a.0: must have at least 1 character"),
        ("scope: groups, groups: {'': ['*']}", "must have at least 1 character"),
        ("scope: groups, groups: {a: '*'}", "layers.groups.a: must be a list, as in [a, b], not '*'"),
        ("scope: layerwise", "line 6: layers.scope: must be 'global', 'per_layer' or 'groups'"),
        ("search: exakt", "line 6: layers.search: must be 'exact', 'beam', 'coordinate', 'tpe', 'racing' or"),
        (
            "estimate: memory",
            "layers: configurations with M, L and C read the memory without naming it; name frozen, epoch or moving",
        ),
        ("estimate: epoch", "layers: the arm bln has no estimate `epoch`: it has frozen"),
        ("evaluations: 15", "line 6: layers.evaluations: must be at least 16, not 15"),
        ("evaluations: 1000001", "line 6: layers.evaluations: must be at most 1000000"),
        ("folds: 1", "line 6: layers.folds: must be at least 2, not 1"),
        ("folds: 21", "line 6: layers.folds: must be at most 20, not 21"),
        ("keep: 0", "line 6: layers.keep: must be at least 1, not 0"),
        ("keep: 10001", "line 6: layers.keep: must be at most 10000"),
        ("width: 0", "line 6: layers.width: must be at least 1, not 0"),
        ("restarts: 0", "line 6: layers.restarts: must be at least 1, not 0"),
        ("folds: yes", "layers: folds does not take yes or no"),
        ("fold: 3", "line 6: layers.fold: unknown key; did you mean `folds`?"),
    ],
)
def test_invalid_option_says_what_to_do(option, expected):
    messages = problems(f"{GOOD}layers: {{{option}}}\n")
    assert any(expected in problem for problem in messages), messages


def test_arm_must_have_the_requested_estimate():
    arms = "[{method: bln}, {method: bn, population: [moving]}]"
    text = f"name: study\ndata: {{name: digits}}\nmodel: {{name: mlp}}\narms: {arms}\n"
    (problem,) = problems(f"{text}layers: {{estimate: frozen}}\n")
    assert "layers: the arm bn has no estimate `frozen`: it has moving" in problem
    assert parse_study(f"{text}layers: {{}}\n").layers is not None


@pytest.mark.parametrize(
    "options", [{"folds": 3}, {"search": "beam"}, {"estimate": "frozen"}, {"scope": "global"}, {"keep": 5}]
)
def test_different_searches_have_different_digests(options):
    assert LayerSearchSpec(**options).digest != LayerSearchSpec().digest


def test_equal_searches_have_equal_digests():
    explicit_defaults = LayerSearchSpec.model_validate({"folds": 2, "scope": "per_layer"})
    assert explicit_defaults.digest == LayerSearchSpec().digest
    groups = LayerSearchSpec(scope=LayerScope.GROUPS, groups={"a": ("x",), "b": ("y",)})
    restored = LayerSearchSpec.model_validate_json(groups.model_dump_json())
    assert restored.digest == groups.digest


def test_order_of_groups_does_not_matter():
    """A layer may fit one group only, and a stored study has its keys in the order of the alphabet."""
    groups_ab, groups_ba = ({"a": ("x*",), "b": ("y",)}, {"b": ("y",), "a": ("x*",)})
    specs = [LayerSearchSpec(scope=LayerScope.GROUPS, groups=groups) for groups in (groups_ab, groups_ba)]
    assert specs[0].digest == specs[1].digest


def test_spec_is_immutable():
    with pytest.raises(ValidationError, match="frozen"):
        LayerSearchSpec().folds = 3
