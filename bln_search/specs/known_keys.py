"""The keys that a model accepts at a location of a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel


def format_unknown_key_advice(schema: type[BaseModel], location: Sequence[int | str]) -> str:
    """Advice about an unknown key: a similar key, the known keys, or its removal.

    Args:
        schema: The model of the whole value.
        location: Keys and list positions that lead to the unknown key, which is the last one.
    """
    models = _list_models_at_location(schema, location[:-1])
    known = list(dict.fromkeys(key for model in models for key in _list_keys_of_model(model)))
    similar = get_close_matches(str(location[-1]), known, n=1) if location else []
    if similar:
        return f"; did you mean `{similar[0]}`?"
    return f"; known here: {', '.join(known)}" if len(models) == 1 else "; remove it"


def _list_keys_of_model(model: type[BaseModel]) -> list[str]:
    hidden: frozenset[str] = getattr(model, "set_by_service", frozenset())
    return [field.alias or name for name, field in model.model_fields.items() if name not in hidden]


def _list_models_at_location(annotation: Any, location: Sequence[int | str]) -> list[type[BaseModel]]:
    """The models that a value at `location` may have; several for a union."""
    models = _list_models_in_annotation(annotation)
    if not location:
        return models
    part, rest = location[0], location[1:]
    inner = [
        field.annotation
        for model in models
        for name, field in model.model_fields.items()
        if part in (name, field.alias)
    ]
    inner += _list_element_annotations(annotation)
    found = [model for member in inner for model in _list_models_at_location(member, rest)]
    return list(dict.fromkeys(found))


def _list_models_in_annotation(annotation: Any) -> list[type[BaseModel]]:
    """The models among the members of an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for member in _list_union_members(annotation) for model in _list_models_in_annotation(member)]


def _list_union_members(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of a union, or the only member of an annotation that wraps another."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return get_args(annotation)[:1]
    return get_args(annotation) if origin in (Union, UnionType) else ()


def _list_element_annotations(annotation: Any) -> list[Any]:
    """The annotations of the elements of a list, or of the values of a mapping."""
    origin = get_origin(annotation)
    if origin in (list, tuple, Sequence):
        return [element for element in get_args(annotation) if element is not Ellipsis]
    if origin in (dict, Mapping):
        return [get_args(annotation)[1]]
    return [element for member in _list_union_members(annotation) for element in _list_element_annotations(member)]
