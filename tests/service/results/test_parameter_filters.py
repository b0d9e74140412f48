"""Filters of rows by parameters of the search space."""

from __future__ import annotations

import pytest

from service.http.problems import ProblemException
from service.results.parameter_filters import parse_parameter_filters

POINT = {
    "learning_rate": 0.0123456,
    "optimizer": "sgd",
    "batch_size": 8,
    "nesterov": True,
    "lambda": {"kind": "steps", "steps": {0.0: 0.5, 0.4: 0.25}},
}


def matches(*texts):
    return all(item.matches(POINT) for item in parse_parameter_filters(texts, list(POINT)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("learning_rate=0.0123456", True),
        ("learning_rate=0.01235", True),  # as it is written
        ("learning_rate = 0.0124", False),
        ("learning_rate<=0.0123456", True),
        ("learning_rate<=0.01", False),
        ("learning_rate>=0.01", True),
        ("batch_size=8.0", True),
        ("batch_size>=9", False),
        ("optimizer=sgd", True),
        ("optimizer=adam", False),
        ("optimizer<=1", False),  # not a number
        ("nesterov=True", True),
        ("nesterov=1", False),
        ("lambda=0:0.5,0.4:0.25", True),
        ("", True),
    ],
)
def test_expression_selects_by_value(text, expected):
    assert matches(text) is expected


def test_all_expressions_must_hold():
    assert matches("batch_size=8", "learning_rate<=1")
    assert not matches("batch_size=8", "learning_rate<=0.001")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("learning_rate", "write NAME=VALUE"),
        ("=3", "write NAME=VALUE"),
        ("rate=3", "choose one of learning_rate"),
        ("learning_rate<=low", "'low' in 'learning_rate<=low' is not a number"),
    ],
)
def test_wrong_expression_is_one_error(text, part):
    with pytest.raises(ProblemException) as raised:
        matches(text)
    assert raised.value.status == 422
    assert part in raised.value.detail


def test_error_names_a_study_without_a_space():
    with pytest.raises(ProblemException, match="no search space"):
        parse_parameter_filters(["learning_rate=1"], [])


@pytest.mark.timeout(20)
def test_long_value_is_read_in_linear_time():
    value = f"a{' ' * 200_000}b"
    (parsed,) = parse_parameter_filters([f" name = {value} "], ["name"])
    assert parsed.value == value
