"""Advice about unknown keys comes from the model at their location."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from bln_search.specs.known_keys import format_unknown_key_advice
from bln_search.specs.study import StudySpec


class _Inner(BaseModel):
    first: int
    second: int


class _Other(BaseModel):
    third: int


class _Outer(BaseModel):
    lists: tuple[_Inner, ...]
    maps: dict[str, _Inner | None]
    union: _Inner | _Other


@pytest.mark.parametrize(
    ("location", "advice"),
    [
        (("list",), "did you mean `lists`?"),
        (("lists", 0, "frist"), "did you mean `first`?"),
        (("lists", 0, "x"), "known here: first, second"),
        (("maps", "key", "secnd"), "did you mean `second`?"),
        (("union", "thrid"), "did you mean `third`?"),
        (("union", "x"), "remove it"),
        (("lists", 0, "first", "x"), "remove it"),
    ],
)
def test_known_keys_are_those_at_the_location(location, advice):
    assert format_unknown_key_advice(_Outer, location) == f"; {advice}"


@pytest.mark.parametrize(
    ("location", "key"),
    [
        (("trainning",), "training"),
        (("arms", 0, "lamda"), "lambda"),
        (("evaluation", "conditions", 0, "sevrity"), "severity"),
        (("layers", "fold"), "folds"),
    ],
)
def test_keys_of_a_study_are_found_in_every_section(location, key):
    assert f"`{key}`" in format_unknown_key_advice(StudySpec, location)
