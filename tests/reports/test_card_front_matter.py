"""The front matter of model cards: intervals, values that are not finite, names."""

from __future__ import annotations

import math

import pytest
import yaml

from bln_search.ranking.statistics.intervals import wilson_interval
from bln_search.reports.card_front_matter import CardMetric, CardResult, render_front_matter


def front_matter(*metrics, **metadata):
    text = render_front_matter(metadata, "network", [CardResult("image-classification", "me/data", "data", metrics)])
    assert text.startswith("---\n")
    assert text.endswith("\n---\n")
    return yaml.safe_load(text[4:-4])


def test_interval_is_an_argument_of_the_metric():
    metric = CardMetric("accuracy", 0.9, "accuracy", (0.85, 0.95), "100 examples")
    (entry,) = front_matter(metric)["model-index"][0]["results"][0]["metrics"]
    assert entry == {
        "type": "accuracy",
        "value": 0.9,
        "name": "accuracy",
        "args": {"confidence_interval": [0.85, 0.95], "confidence_level": 0.95, "over": "100 examples"},
    }


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_value_that_is_not_finite_is_left_out(value):
    assert front_matter(CardMetric("loss", value, "loss"), license="mit") == {"license": "mit"}
    (result,) = front_matter(CardMetric("loss", 1.0, "loss", (0.0, value)))["model-index"][0]["results"]
    assert "args" not in result["metrics"][0]


@pytest.mark.parametrize(
    ("fraction", "n", "low", "high"),
    [(0.0, 10, 0.0, 0.277533), (1.0, 10, 0.722467, 1.0), (0.5, 2, 0.094531, 0.905469), (0.48, 360, 0.428877, 0.531547)],
)
def test_wilson_interval_has_its_published_form(fraction, n, low, high):
    z = 1.959963984540054
    roots = [
        (2 * n * fraction + z * z + sign * z * math.sqrt(z * z + 4 * n * fraction * (1 - fraction))) / (2 * (n + z * z))
        for sign in (-1, 1)
    ]
    assert wilson_interval(fraction, n) == pytest.approx(roots, abs=1e-12)
    assert wilson_interval(fraction, n) == pytest.approx((low, high), abs=1e-5)
