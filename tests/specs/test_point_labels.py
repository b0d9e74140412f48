"""Labels of points: four digits, or as many as distinguish the points."""

from __future__ import annotations

import json

import pytest

from bln_search.specs.sections.point_labels import (
    find_distinct_point_digits,
    find_distinct_value_digits,
    make_label_by_distinct_point,
)


def encoded(*values, name="training.learning_rate"):
    return [json.dumps({name: value}) for value in values]


def steps(value):
    return {"kind": "steps", "steps": {"0": 0.35, "0.5": value}}


@pytest.mark.parametrize(
    "points",
    [
        encoded(0.012341, 0.012344),
        encoded(0.1, 0.1 + 1e-16, 0.1 + 1e-15),
        encoded(1e-9, 1.00001e-9, 1.0000001e-9),
        encoded(steps(0.8333), steps(0.83331)),
        encoded(
            {"kind": "linear", "initial": 0.35, "final": 0.8}, {"kind": "linear", "initial": 0.35, "final": 0.8001}
        ),
        ["", *encoded(0.1, 0.2)],
    ],
)
def test_different_points_have_different_labels(points):
    labels = make_label_by_distinct_point([*points, *points])
    assert set(labels) == set(points)
    assert len(set(labels.values())) == len(set(points))


def test_labels_have_four_digits_where_these_distinguish_the_points():
    first, second = encoded(0.0123456, 0.0223456)
    assert make_label_by_distinct_point([first, second]) == {
        first: "learning_rate=0.01235",
        second: "learning_rate=0.02235",
    }
    assert make_label_by_distinct_point([first, first, ""]) == {first: "learning_rate=0.01235", "": ""}
    assert find_distinct_point_digits([]) == 4


def test_labels_have_no_more_digits_than_distinguish_the_points():
    assert find_distinct_point_digits(encoded(0.012341, 0.012344)) == 5
    assert find_distinct_point_digits(encoded(0.1234561, 0.1234564)) == 8
    assert find_distinct_value_digits([0.012341, 0.012344]) == 5
    assert find_distinct_value_digits(["a", 1, None, True]) == 4


def test_labels_end_where_points_differ_in_no_number():
    points = [json.dumps({"model.width": 8}), json.dumps({"training.width": 8})]
    assert find_distinct_point_digits(points) == 4
