"""JSON Schemas in words: type with bounds, default and description of every property."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

Schema = dict[str, Any]
Link = Callable[[str], str]
"""Returns the Markdown for a schema that another one refers to by its name."""

NO_DEFAULT = "–"
REQUIRED = "required"
_NOUNS = {
    "integer": ("integer", "integers"),
    "number": ("number", "numbers"),
    "string": ("text", "texts"),
    "boolean": ("`true` or `false`", "values `true` or `false`"),
    "object": ("object", "objects"),
}
_FORMATS = {
    "binary": "binary data",
    "date-time": "time (ISO 8601)",
    "password": "secret text",
    "path": "path",
    "uri": "URL",
}
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Property:
    """A property of an object.

    Attributes:
        name: Its key.
        type: Its type with its bounds, as Markdown.
        default: `required`, a default in backticks, or `NO_DEFAULT`.
        meaning: Its description; empty if the schema has none.
        nullable: Whether null is allowed.
    """

    name: str
    type: str
    default: str
    meaning: str
    nullable: bool


def properties(schema: Schema, link: Link) -> list[Property]:
    """The properties of an object schema. Descriptions in its docstring (`Attributes:`) count as theirs."""
    _, attributes = split_docstring(schema.get("description", ""))
    required = schema.get("required", [])
    return [
        Property(
            name,
            type_text(field, link),
            REQUIRED if name in required else default_text(field),
            sentence(_meaning(name, field, attributes)),
            is_nullable(field),
        )
        for name, field in schema.get("properties", {}).items()
    ]


def members(schema: Schema) -> dict[str, str]:
    """The values of an enumeration with their descriptions, from its docstring (`Members:`)."""
    _, descriptions = split_docstring(schema.get("description", ""))
    return {str(value): sentence(descriptions.get(str(value).upper(), "")) for value in schema.get("enum", ())}


def split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Split a docstring in Google style into its text, without line breaks, and its attributes or members by name."""
    summary, *sections = re.split(r"^(?:Attributes|Members):\n", text, flags=re.MULTILINE)
    entries: dict[str, str] = {}
    name = ""
    for line in "\n".join(sections).splitlines():
        entry = re.match(r" {4}(\w+): +(.*)", line)
        if entry:
            name = entry[1]
            entries[name] = entry[2]
        elif name and line.strip():
            entries[name] += f" {line.strip()}"
    return " ".join(summary.split()), entries


def _meaning(name: str, field: Schema, attributes: dict[str, str]) -> str:
    own = attributes.get(name) or attributes.get(f"{name}_") or ""
    return "; ".join(filter(None, (own.rstrip("."), str(field.get("description", "")))))


def sentence(text: str) -> str:
    """The text with a period last and a capital letter first, unless it begins with a symbol or code."""
    text = " ".join(text.split())
    if re.match(r"(a|[a-z]{2,})(?=[ ;.']|$)", text):
        text = text[0].upper() + text[1:]
    return f"{text.rstrip('.')}." if text else ""


def alternatives(values: Iterable[object]) -> str:
    """Values in backticks: `a`, `b` or `c`."""
    *others, last = [f"`{value}`" for value in values]
    return f"{', '.join(others)} or {last}" if others else last


def cell(text: str) -> str:
    """Escape a text for a cell of a Markdown table; Python-Markdown prints inline code as it is."""
    return re.sub(r"(`[^`]*`)|\|", lambda match: match[1] or r"\|", text)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table that ends with a line break."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines)


def type_text(schema: Schema, link: Link, *, plural: bool = False) -> str:
    """The type of a value with its bounds; null is left out.

    Args:
        schema: The schema of the value.
        link: Markdown for another schema.
        plural: Return the plural, as in "list of integers".
    """
    if "$ref" in schema:
        return link(schema["$ref"].rpartition("/")[2])
    branches: list[Schema] = schema.get("anyOf") or schema.get("oneOf") or []
    options = [branch for branch in branches if branch.get("type") != "null"]
    if options:
        return ", or ".join(dict.fromkeys(type_text(option, link, plural=plural) for option in options))
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values is not None:
        return alternatives(values)
    return _container_text(schema, link) or _plain_text(schema, plural=plural)


def _container_text(schema: Schema, link: Link) -> str | None:
    """The type of a list or a mapping; None for other types."""
    if schema.get("type") == "array":
        count, entries = _count_text(schema, "Items"), type_text(schema.get("items", {}), link, plural=True)
        return f"list of {count}{entries}"
    if isinstance(schema.get("additionalProperties"), dict):
        keys = f"{_count_text(schema, 'Properties')}keys"
        return f"mapping of {keys} to {type_text(schema['additionalProperties'], link, plural=True)}"
    return None


def _plain_text(schema: Schema, *, plural: bool) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    kind = schema.get("type")
    if kind not in _NOUNS:
        return "any value"
    return f"{_NOUNS[kind][plural]}{_bounds_text(schema)}{_length_text(schema, plural=plural)}"


def is_nullable(schema: Schema) -> bool:
    """Does the schema allow null?"""
    return any(option.get("type") == "null" for option in schema.get("anyOf", ()))


def default_text(schema: Schema) -> str:
    """The default as YAML in backticks; `NO_DEFAULT` if there is none."""
    value = schema.get("default")
    if value is None:
        return NO_DEFAULT
    return f"`{yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix('...' + chr(10)).strip()}`"


def _bounds_text(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" from {number_text(low)} to {number_text(high)}"
    signs = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
    bounds = [f"{sign} {number_text(schema[key])}" for key, sign in signs.items() if key in schema]
    return f" {' and '.join(bounds)}" if bounds else ""


def _length_text(schema: Schema, *, plural: bool) -> str:
    """Pattern or length of a string."""
    if "pattern" in schema:
        return f" that {'match' if plural else 'matches'} `{schema['pattern']}`"
    count = _count_text(schema, "Length")
    return f" ({count}characters)" if count else ""


def _count_text(schema: Schema, of_what: str) -> str:
    """The allowed number of entries or characters with a space behind it; empty if any number is allowed."""
    low, high = schema.get(f"min{of_what}"), schema.get(f"max{of_what}")
    if high is None:
        return "" if low is None else f"at least {number_text(low)} "
    return f"at most {number_text(high)} " if low is None else f"{number_text(low)} to {number_text(high)} "


def number_text(value: float) -> str:
    """A bound as text: integers without a fraction, large powers of two as powers."""
    if value != int(value):
        return f"{value:g}"
    exponent = int(abs(value)).bit_length() - 1
    if exponent > 30 and abs(value) == 2**exponent:
        return f"{'-' if value < 0 else ''}2{str(exponent).translate(_SUPERSCRIPTS)}"
    return f"{int(value):,}"
