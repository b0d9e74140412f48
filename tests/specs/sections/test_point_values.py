"""Parameters of a point, and their short form in narrow columns."""

from __future__ import annotations

import pytest

from bln_search.specs.sections.space import format_parameter_value_short, parse_point_parameters


@pytest.mark.parametrize(
    ("value", "short"),
    [
        (0.123456, "0.1235"),
        ("sgd", "sgd"),
        ({"kind": "steps", "steps": {"0.0": 0.35, "0.4": 0.2345, "0.6": 0.83}}, "0.35→0.234→0.83"),
        ({"kind": "linear", "initial": 0.1, "final": 0.9, "begin": 0.0, "end": 1.0}, "0.1→0.9"),
        ({"kind": "constant", "value": 0.3}, "0.3"),
    ],
)
def test_schedules_are_written_as_their_values(value, short):
    assert format_parameter_value_short(value) == short


def test_parameters_have_the_last_part_of_their_key_as_name():
    point = '{"arm.lambda": 0.5, "training": {"batch_size": 8, "momentum": 0.9}, "training.learning_rate": 0.1}'
    assert parse_point_parameters(point) == {"lambda": 0.5, "batch_size": 8, "momentum": 0.9, "learning_rate": 0.1}
    assert parse_point_parameters("") == {}
