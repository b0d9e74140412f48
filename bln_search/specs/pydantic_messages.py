"""Translate pydantic's errors into messages for people who write studies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice

from pydantic_core import ErrorDetails

from bln_search.core.similar_names import format_similar_name
from bln_search.specs.regex_requirements import describe_regex_requirement

_TYPE_ERRORS = {
    "a whole number": ("int_type", "int_parsing", "int_parsing_size", "int_from_float"),
    "a number": ("float_type", "float_parsing"),
    "a finite number": ("finite_number",),
    "true or false": ("bool_type", "bool_parsing"),
    "text": ("string_type",),
    "a list, as in [a, b]": ("tuple_type", "list_type"),
    "a section of `key: value` lines": ("dict_type", "model_type", "model_attributes_type"),
}
_EXPECTED_TYPES = {error: expected for expected, errors in _TYPE_ERRORS.items() for error in errors}

_SENTENCES: Mapping[str, str] = {
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "too_short": "must have at least {min_length} entry",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must have at least {min_length} character",
    "string_too_long": "must have at most {max_length} characters",
    "union_tag_invalid": "the key {discriminator} must be one of {expected_tags}, not {tag!r}",
    "union_tag_not_found": "the key {discriminator} is missing; add it",
}
_WITHOUT_VALUE = ("union_tag_invalid", "union_tag_not_found")
"""Errors whose message already contains the value, or has none."""


def translate_pydantic_error(details: ErrorDetails) -> str:
    """The message for an error, with the invalid value; pydantic's message for errors without a translation."""
    kind, context = details["type"], details.get("ctx", {})
    if kind == "value_error":
        return details["msg"].removeprefix("Value error, ")
    if kind in _EXPECTED_TYPES:
        text = f"must be {_EXPECTED_TYPES[kind]}"
    elif kind in _SENTENCES:
        text = _SENTENCES[kind].format(**{name: _to_int(value) for name, value in context.items()})
    elif kind == "string_pattern_mismatch":
        text = describe_regex_requirement(str(context["pattern"]))
    else:
        text = details["msg"]
    if kind in _WITHOUT_VALUE:
        return text
    return f"{text}, not {short_repr(details['input'])}{_format_similar_member(details)}"


def _format_similar_member(details: ErrorDetails) -> str:
    """The similar name in a list of possible values; empty where there is none."""
    value = details["input"]
    if details["type"] not in ("literal_error", "enum") or not isinstance(value, str):
        return ""
    return format_similar_name(value[:60], re.findall(r"'([^']*)'", details.get("ctx", {})["expected"]))


def short_repr(value: object) -> str:
    """The repr of a value, at most 60 characters; what lies beyond is not formatted."""
    try:
        text = repr(_shorten(value))
    except ValueError:
        return "a number with thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."


def _shorten(value: object) -> object:
    if isinstance(value, str | bytes):
        return value[:60]
    if isinstance(value, list | tuple):
        return type(value)(_shorten(member) for member in value[:20])
    if isinstance(value, dict):
        return {_shorten(key): _shorten(member) for key, member in islice(value.items(), 20)}
    return value


def _to_int(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value
