from __future__ import annotations

import re

import pytest

from bln_search.integrations.trackers.mlflow_names import make_name, make_parameter_text, make_tag_text

validation = pytest.importorskip("mlflow.utils.validation")


def test_an_accepted_name_stays_as_it_is():
    assert make_name("training.learning_rate") == "training.learning_rate"
    assert make_name("a b/c-d_1") == "a b/c-d_1"


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "/", "../x", "a//b", "a/../b", "./a", "é💥", "a\nb", "a\0b", "x:y", "%2e", "\ud800", "x" * 5000],
)
def test_every_other_name_becomes_one_that_mlflow_accepts(name):
    clean = make_name(name)
    validation._validate_param_name(clean)
    validation._validate_metric_name(clean)
    assert 0 < len(clean) <= 250


def test_names_that_differ_stay_different():
    names = ["a:b", "a;b", "a_b", "a/../b", "a//b", "é", "è", "x" * 300, "x" * 301]
    assert len({make_name(name) for name in names}) == len(names)


def test_values_have_a_length_that_mlflow_accepts():
    for text in (make_parameter_text("é\ud800\0" * 9000), make_tag_text("💥" * 9000)):
        assert len(text) <= 5000
        text.encode()
    assert make_parameter_text("") == '""'
    assert [make_parameter_text(value) for value in (True, 0.1, 3, "x")] == ["true", "0.1", "3", "x"]
    assert re.fullmatch("x{999}…", make_parameter_text("x" * 2000))
