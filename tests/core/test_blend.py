"""Labels of population estimates, and weights of blends."""

from __future__ import annotations

import pytest

from bln_search.core.blend import Blend, blend_label, parse_estimate


@pytest.mark.parametrize(
    ("value", "blend", "text"),
    [
        (0.1, Blend(0.1), "0.1"),
        ("0.25", Blend(0.25), "0.25"),
        ("N16", Blend(16, is_prior=True), "N16"),
        ("N0.5", Blend(0.5, is_prior=True), "N0.5"),
    ],
)
def test_weights_are_parsed_and_printed(value, blend, text):
    assert Blend.parse(value) == blend
    assert str(blend) == text
    assert Blend.parse(str(blend)) == blend


@pytest.mark.parametrize(
    "value", [0, 1, 1.5, -0.1, "N0", "N-1", "Ninf", "nan", float("inf"), "16N", "", "x", True, None]
)
def test_impossible_weights_are_an_error(value):
    with pytest.raises(ValueError, match="weight of a blend"):
        Blend.parse(value)


@pytest.mark.parametrize(("size", "weight"), [(1, 16 / 17), (16, 0.5), (48, 0.25)])
def test_prior_weight_counts_examples_of_the_mini_batch(size, weight):
    assert Blend(16, is_prior=True).weight(size) == pytest.approx(weight)
    assert Blend(0.1).weight(size) == 0.1


def test_label_has_population_and_weight():
    assert blend_label("target", Blend(16, is_prior=True)) == "target@N16"
    assert parse_estimate("target@N16") == ("target", Blend(16, is_prior=True))
    assert parse_estimate("frozen") == ("frozen", None)


@pytest.mark.parametrize("label", ["", "@0.1", "1st", "two words", "a" * 40, "frozen@", "frozen@2"])
def test_invalid_labels_are_an_error(label):
    with pytest.raises(ValueError, match=r"population|weight"):
        parse_estimate(label)
