"""Confidence intervals as pictures."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from bln_search.ranking.statistics.intervals import ConfidenceInterval
from service.pages.leaderboard.interval_plot import WIDTH, find_interval_scale, render_interval_svg

NEAR, WIDE, ONE_SEED = (
    ConfidenceInterval(0.5, 0.1, 3),
    ConfidenceInterval(0.6, 0.2, 3),
    ConfidenceInterval(0.55, None, 1),
)
FAR = ConfidenceInterval(9.0, 0.5, 3)


def drawn(interval, scale):
    return ElementTree.fromstring(str(render_interval_svg(interval, scale)))


def test_line_and_mean_are_where_the_figures_are():
    scale = find_interval_scale([NEAR, WIDE], 0.5)
    picture = drawn(WIDE, scale)
    line = picture.findall("line")[1]
    ends = float(line.get("x1")), float(line.get("x2"))
    middle = float(picture.find("circle").get("cx"))
    assert 0 < ends[0] < middle < ends[1] < WIDTH
    assert middle == pytest.approx(sum(ends) / 2, abs=0.1)
    share = (middle - scale.position_in_pixels(0.5)) / (ends[1] - scale.position_in_pixels(0.5))
    assert share == pytest.approx((0.6 - 0.5) / (0.8 - 0.5), abs=0.01)


def test_text_alternative_has_the_figures_and_nothing_has_a_style():
    picture = drawn(NEAR, find_interval_scale([NEAR], None))
    assert picture.get("role") == "img"
    assert re.findall(r"\d\.\d+", picture.get("aria-label")) == ["0.50", "0.10", "0.4000", "0.6000"]
    assert all("style" not in element.attrib for element in picture.iter())


def test_far_interval_does_not_flatten_the_others():
    scale = find_interval_scale([NEAR, WIDE, NEAR, WIDE, FAR], 0.5)
    assert scale.high < 1.5
    picture = drawn(FAR, scale)
    assert picture.find("circle") is None
    assert picture.find("path") is not None  # an arrow
    assert drawn(WIDE, scale).find("path") is None


def test_one_seed_has_a_mark_without_a_line():
    picture = drawn(ONE_SEED, find_interval_scale([NEAR, ONE_SEED], None))
    assert picture.find("line") is None
    assert picture.find("circle") is not None


def test_far_mark_of_one_seed_is_an_arrow():
    near, far = (ConfidenceInterval(mean, None, 1) for mean in (0.5, 5.0))
    picture = drawn(far, find_interval_scale([ONE_SEED, near, near, far], None))
    assert picture.find("circle") is None
    assert picture.find("path") is not None


def test_missing_value_has_no_picture():
    assert find_interval_scale([None], None) is None
    assert str(render_interval_svg(None, find_interval_scale([NEAR], None))) == "–"


def test_equal_values_have_a_scale():
    exact = ConfidenceInterval(0.5, 0.0, 3)
    assert drawn(exact, find_interval_scale([exact, exact], 0.5)).find("circle") is not None
