"""The section `layers` of a study."""

from __future__ import annotations

from bln_search.core.enums import LayerScope, LayerSearchAlgorithm, PopulationEstimate
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
