"""No message shows a regular expression."""

from __future__ import annotations

import json

import pytest

from bln_search.specs.regex_requirements import describe_regex_requirement
from tests.conftest import ROOT

WITH_OWN_MESSAGE = {r"^[^\u0000]*$", r"^N[1-9][0-9]{0,8}(\.[0-9]{1,9})?$"}
"""Patterns of the API description that other checks enforce."""


def patterns(schema):
    """Every pattern in a part of the API description."""
    if isinstance(schema, dict):
        found = {schema["pattern"]} if isinstance(schema.get("pattern"), str) else set()
        return found.union(*(patterns(value) for value in schema.values()))
    return set().union(*(patterns(value) for value in schema)) if isinstance(schema, list) else set()


@pytest.mark.parametrize(
    "pattern", sorted(patterns(json.loads((ROOT / "openapi.json").read_text())) - WITH_OWN_MESSAGE)
)
def test_every_pattern_of_the_api_is_described(pattern):
    assert "^" not in describe_regex_requirement(pattern)
