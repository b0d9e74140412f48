"""Scalars are those of the core schema of YAML 1.2, are bounded before they are converted, and are written so that any
reader finds the same text."""

from __future__ import annotations

import math
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bln_search.core.errors import SpecError
from bln_search.specs.yaml_document import parse_yaml_nodes_and_values
from bln_search.specs.yaml_scalars import StudyDumper
from tests.specs.minimal_study import MINIMAL_STUDY, problems


def read(scalar):
    return parse_yaml_nodes_and_values(f"value: {scalar}")[1]["value"]


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("010", 10),
        ("011", 11),
        ("-08", -8),
        ("+12", 12),
        ("0o10", 8),
        ("0x1F", 31),
        ("1e3", 1000.0),
        ("1E-5", 1e-5),
        (".5", 0.5),
        ("5.", 5.0),
        ("-.inf", -math.inf),
        ("1:30", "1:30"),
        ("12:30:45", "12:30:45"),
        ("190:20:30.15", "190:20:30.15"),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("2026-11-27", "2026-11-27"),
        ("2026-11-27T10:00:00Z", "2026-11-27T10:00:00Z"),
        ("=", "="),
        ("1.2.3", "1.2.3"),
        ("'010'", "010"),
        ("!!int 010", 10),
        ("!!float 010", 10.0),
        ("!!str 010", "010"),
        ("yes", True),
        ("Off", False),
        ("y", "y"),
        ("~", None),
    ],
)
def test_scalar_has_the_value_of_yaml_1_2(scalar, value):
    assert read(scalar) == value
    assert type(read(scalar)) is type(value)


@pytest.mark.parametrize(
    ("scalar", "named"),
    [
        ("1e999", "1e999 is too large"),
        ("-1e309", "-1e309 is too large"),
        ("9" * 101, "101 characters"),
        ("1." + "0" * 999_000, "999,002 characters"),
        ("59" + ":59" * 300_000 + ".5", None),
        ("!!int 59:59", "'59:59'"),
        ("!!float 59:59.5", "'59:59.5'"),
        ("!!binary aGVsbG8=", "binary"),
        ("!!timestamp 2026-11-27", "timestamp"),
        ("!!set {a, b}", "set"),
        ("!!omap [a: 1]", "omap"),
        ("!!python/object/apply:os.system [ls]", "python"),
        ("!own {a: 1}", "!own"),
    ],
)
def test_scalar_without_a_bounded_value_is_refused_at_once(scalar, named):
    start = time.process_time()
    if named is None:
        assert read(scalar) == scalar  # text: base 60 does not exist
    else:
        with pytest.raises(SpecError, match="line 1: ") as refused:
            read(scalar)
        assert named in str(refused.value)
        assert len(str(refused.value)) < 300
    assert time.process_time() - start < 0.5


def test_sexagesimal_and_octal_looking_values_of_a_study_name_their_keys():
    study = MINIMAL_STUDY + "training: {epochs: 1:30}\nseeds: [010, 12:30:45]\n"
    assert [problem.split(": ")[1] for problem in problems(study)] == ["training.epochs", "seeds.1"]


def test_merge_keys_are_unknown_keys():
    assert any("<<" in problem for problem in problems(MINIMAL_STUDY + "<<: {title: a}\n"))


TEXTS = ["010", "08", "1e3", "1:30", "0o7", "0b1", "1_0", "2026-11-27", "yes", "No", "~", "", "=", "<<", ".5", "5."]


@pytest.mark.parametrize("text", TEXTS)
def test_written_text_is_the_same_text_for_every_reader(text):
    written = yaml.dump({"value": text}, Dumper=StudyDumper)
    assert (parse_yaml_nodes_and_values(written)[1], yaml.safe_load(written)) == ({"value": text}, {"value": text})


@given(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12))
def test_written_value_is_read_again(value):
    assert parse_yaml_nodes_and_values(yaml.dump({"value": value}, Dumper=StudyDumper))[1] == {"value": value}
