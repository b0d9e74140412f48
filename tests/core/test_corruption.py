"""A corruption is named by its name and severity."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from bln_search.core import registry
from bln_search.core.corruption import SEVERITIES, Corruption, parse_corruption
from bln_search.core.errors import DataError


@pytest.mark.parametrize("name", registry.CORRUPTIONS.built_in)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_text_of_a_corruption_parses_to_it(name, severity):
    corruption = Corruption(name, severity)
    assert parse_corruption(str(corruption)) == corruption
    assert parse_corruption(name, severity) == corruption


def test_severity_is_three_by_default():
    assert parse_corruption("contrast") == Corruption("contrast") == Corruption("contrast", 3)


@pytest.mark.parametrize(
    "text", ["contrasts", "contrast-x", "", "-3", "contrast--3", "contrast-3-3", "Contrast", "os.system"]
)
def test_unknown_name_lists_the_choices(text):
    with pytest.raises(DataError) as raised:
        parse_corruption(text)
    assert all(name in str(raised.value) for name in registry.CORRUPTIONS.built_in)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("severity", [0, 6, -1, 2.0, True, "3"])
def test_unknown_severity_names_the_range(severity):
    with pytest.raises(DataError, match=r"from 1 to 5, not"):
        parse_corruption("contrast", severity)


@pytest.mark.parametrize("text", ["contrast-0", "contrast-6", "contrast-999"])
def test_unknown_severity_in_a_text_names_the_range(text):
    with pytest.raises(DataError, match=f"from 1 to 5, not {text.partition('-')[2]}"):
        parse_corruption(text)


def test_two_severities_are_an_error():
    with pytest.raises(DataError, match="'contrast-3' has a severity"):
        parse_corruption("contrast-3", 3)


@pytest.mark.parametrize("name", [None, 3, ["contrast"]])
def test_name_of_another_type_is_an_error(name):
    with pytest.raises(DataError, match="is a name"):
        parse_corruption(name)


def test_name_of_a_plugin_may_end_in_a_number(monkeypatch):
    monkeypatch.setitem(registry.CORRUPTIONS.plugins, "jpeg-2000", EntryPoint("jpeg-2000", "own:jpeg", "x"))
    assert parse_corruption("jpeg-2000") == Corruption("jpeg-2000", 3)
    assert parse_corruption("jpeg-2000-5") == Corruption("jpeg-2000", 5)
