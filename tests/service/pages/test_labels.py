"""Numbers, durations and switches as pages show them."""

from __future__ import annotations

import pytest

from bln_search.core.configuration import InferenceConfiguration
from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.formatting import format_interval, format_signed, format_signed_interval
from service.pages.rendering import labels


@pytest.mark.parametrize(
    ("interval", "factor", "expected"),
    [
        (ConfidenceInterval(1.234567, 0.0123, 3), 1, "1.235 ± 0.012"),
        (ConfidenceInterval(0.45678, 0.0049, 3), 100, "45.68 ± 0.49"),
        (ConfidenceInterval(0.45678, None, 1), 1, "0.4568"),
        (ConfidenceInterval(123.4, 55.0, 3), 1, "123 ± 55"),
        (ConfidenceInterval(1.0, 0.0, 3), 1, "1.0000 ± 0"),
        (ConfidenceInterval(-1e-17, 0.0, 3), 1, "0.0000 ± 0"),
        (ConfidenceInterval(-1e-17, 1e-17, 3), 1, "0.0000 ± 0"),
        (ConfidenceInterval(-0.004, 0.31, 3), 1, "0.00 ± 0.31"),
        (None, 1, "–"),
    ],
)
def test_numbers_are_rounded_to_their_uncertainty(interval, factor, expected):
    assert format_interval(interval, factor) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(0.25, "+0.2500"), (-0.25, "-0.2500"), (-1e-9, "0.0000"), (0.0, "0.0000"), (4e-5, "0.0000")]
)
def test_difference_that_is_rounded_to_zero_has_no_sign(value, expected):
    assert format_signed(value) == expected
    assert format_signed_interval(ConfidenceInterval(value, None, 1)) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, "unknown"), (0.4, "0 s"), (59.6, "1 min"), (61, "1 min 1 s"), (3600, "1 h"), (90_000, "1 d 1 h")],
)
def test_durations_have_two_units(seconds, expected):
    assert labels.format_duration(seconds) == expected


def test_label_of_a_configuration_names_its_switches():
    assert [letter for letter, _, _ in labels.switch_labels(InferenceConfiguration("TF--"))] == ["T", "F", "-", "-"]


def test_label_of_a_blend_has_a_style_of_its_own():
    switches = labels.switch_labels(InferenceConfiguration("BF--"))
    assert [style for _, style, _ in switches] == ["blend", "mini-batch", "none", "none"]
    assert switches[0][2] == "mini-batch mean: blend of population and mini-batch"
