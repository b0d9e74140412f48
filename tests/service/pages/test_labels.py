"""Numbers, durations and switches as pages show them."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.formatting import (
    common_decimals,
    format_interval,
    format_metric_interval,
    format_signed,
    format_signed_interval,
)
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
    ("interval", "metric", "decimals", "expected"),
    [
        (ConfidenceInterval(0.333, 2.82, 2), "accuracy", None, "33 ± > 100"),
        (ConfidenceInterval(0.333, 0.82, 2), "accuracy", None, "33 ± 82"),
        (ConfidenceInterval(0.333, 0.0082, 2), "accuracy", 2, "33.30 ± 0.82"),
        (ConfidenceInterval(0.5, 120.0, 2), "loss", None, "0 ± 120"),
        (ConfidenceInterval(0.5, 120.0, 2), "loss", 2, "0.50 ± 120.00"),
        (ConfidenceInterval(0.5, 1e-5, 2), "loss", 3, "0.500 ± < 0.001"),
        (ConfidenceInterval(0.5, 0.0, 2), "loss", 2, "0.50 ± 0"),
        (ConfidenceInterval(0.5, None, 1), "loss", 4, "0.5000"),
        (None, "accuracy", 2, "–"),
    ],
)
def test_half_width_never_looks_smaller_than_it_is_or_larger_than_the_range(interval, metric, decimals, expected):
    assert format_metric_interval(interval, metric, decimals) == expected


@pytest.mark.parametrize(
    ("halves", "metric", "expected"),
    [
        ([1.2, 0.3, 0.18], "loss", 2),
        ([120.0, 55.0], "loss", 2),
        ([0.012, 0.034, 0.5], "loss", 3),
        ([0.12, 0.12, 0.0004], "loss", 4),
        ([1e-7, 1e-7], "loss", 6),
        ([None, None], "loss", 4),
        ([0.0, 0.0], "loss", 4),
        ([0.64, 0.3], "accuracy", 0),
        ([0.0049, 0.0031], "accuracy", 2),
        ([None], "accuracy", 2),
        ([], "accuracy", 2),
    ],
)
def test_decimals_of_a_column_follow_its_half_widths_within_bounds(halves, metric, expected):
    assert common_decimals([ConfidenceInterval(0.5, half, 3) for half in halves], metric) == expected


def test_rounded_values_of_a_column_keep_their_order():
    rng = np.random.default_rng(0)
    intervals = [
        ConfidenceInterval(mean, half, 3)
        for mean, half in zip(np.sort(rng.uniform(0.4, 0.6, 50)), 10.0 ** rng.uniform(-4, 1, 50), strict=True)
    ]
    decimals = common_decimals(intervals, "loss")
    shown = [float(format_metric_interval(interval, "loss", decimals).partition(" ")[0]) for interval in intervals]
    assert shown == sorted(shown)
    alone = [float(format_interval(interval).partition(" ")[0]) for interval in intervals]
    assert alone != sorted(alone)


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-0.030 ± 0.015 •", "−0.030 ± 0.015 •"),
        ("[-0.2, -0.1]", "[−0.2, −0.1]"),
        ("TT--", "TT--"),
        ("fog-2", "fog-2"),
        ("1e-05", "1e-05"),
        ("–", "–"),
    ],
)
def test_negative_numbers_have_a_minus_sign(text, expected):
    assert labels.replace_hyphens_by_minus_signs(text) == expected
