"""Types that several models share."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, Field, StringConstraints

from bln_search.core.names import NAME_PATTERN

Item = TypeVar("Item")


def whole_float_to_int(value: object) -> object:
    """Accept 8.0 as 8: JSON has one type of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]


NO_NUL = Field(json_schema_extra={"pattern": "^[^\\u0000]*$"})
"""The part of `require_storable_text`'s check that JSON Schema can express."""


class ListPage(BaseModel, Generic[Item]):
    """A page of a list."""

    items: list[Item]
    next_cursor: str | None = Field(description="send it as `cursor` for the next page; null on the last one")
