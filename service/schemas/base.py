"""Types that several models share."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, Field, StringConstraints

from bln_search.core.names import NAME_PATTERN

Item = TypeVar("Item")
Model = TypeVar("Model", bound=BaseModel)


def whole_float_to_int(value: object) -> object:
    """Accept 8.0 as 8: JSON has one type of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def project(model: type[Model], *sources: object, **values: Any) -> Model:
    """A response whose fields are attributes of records of the same names.

    Args:
        model: The response model.
        sources: Records; the first one with an attribute of the name of a field has its value.
        values: Values of fields that have other names or types in the records.
    """
    for name in model.model_fields.keys() - values.keys():
        source = next((source for source in sources if hasattr(source, name)), None)
        if source is not None:
            values[name] = getattr(source, name)
    return model.model_validate(values, from_attributes=True)


Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]


NO_NUL = Field(json_schema_extra={"pattern": "^[^\\u0000]*$"})
"""The part of `require_storable_text`'s check that JSON Schema can express."""


class ListPage(BaseModel, Generic[Item]):
    """A page of a list."""

    items: list[Item]
    next_cursor: str | None = Field(description="send it as `cursor` for the next page; null on the last one")
