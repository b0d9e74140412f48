"""Labels of population estimates, and weights of blends."""

from __future__ import annotations

import pytest

from bln_search.core.blend import PopulationWeight, blended_estimate_label, parse_estimate_label


@pytest.mark.parametrize(
    ("value", "blend", "text"),
    [
        (0.1, PopulationWeight(0.1), "0.1"),
        ("0.25", PopulationWeight(0.25), "0.25"),
        ("N16", PopulationWeight(16, is_prior=True), "N16"),
        ("N0.5", PopulationWeight(0.5, is_prior=True), "N0.5"),
    ],
)
def test_weights_are_parsed_and_printed(value, blend, text):
    assert PopulationWeight.parse(value) == blend
    assert str(blend) == text
    assert PopulationWeight.parse(str(blend)) == blend


@pytest.mark.parametrize(
    "value", [0, 1, 1.5, -0.1, "N0", "N-1", "Ninf", "nan", float("inf"), "16N", "", "x", True, None]
)
def test_impossible_weights_are_an_error(value):
    with pytest.raises(ValueError, match="weight of a blend"):
        PopulationWeight.parse(value)


@pytest.mark.parametrize(("size", "weight"), [(1, 16 / 17), (16, 0.5), (48, 0.25)])
def test_prior_weight_counts_examples_of_the_mini_batch(size, weight):
    assert PopulationWeight(16, is_prior=True).population_share(size) == pytest.approx(weight)
    assert PopulationWeight(0.1).population_share(size) == 0.1


def test_label_has_population_and_weight():
    assert blended_estimate_label("target", PopulationWeight(16, is_prior=True)) == "target@N16"
    assert parse_estimate_label("target@N16") == ("target", PopulationWeight(16, is_prior=True))
    assert parse_estimate_label("frozen") == ("frozen", None)


@pytest.mark.parametrize("label", ["", "@0.1", "1st", "two words", "a" * 40, "frozen@", "frozen@2"])
def test_invalid_labels_are_an_error(label):
    with pytest.raises(ValueError, match=r"population|weight"):
        parse_estimate_label(label)
