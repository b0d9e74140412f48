"""Scalars of study files: texts, numbers, booleans and null by the core schema of YAML 1.2 (section 10.3).

PyYAML reads the numbers of YAML 1.1, in which `010` is 8, `1:30` is 90 and `2026-11-27` is a date. Booleans are also
written as in YAML 1.1 (`yes`, `off`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

import yaml
from yaml.resolver import BaseResolver

_TAG = "tag:yaml.org,2002:"
TEXT_TAG = f"{_TAG}str"
MAX_NUMBER_LENGTH = 100
"""Characters of the longest number."""

_BOOLEANS = {"yes": True, "no": False, "true": True, "false": False, "on": True, "off": False}
_PATTERNS = {
    "bool": "|".join(form for word in _BOOLEANS for form in (word, word.capitalize(), word.upper())),
    "int": "[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    "null": "~|null|Null|NULL|",
}
_FIRST_CHARACTERS = {"bool": "yYnNtTfFoO", "int": "-+0123456789", "float": "-+.0123456789", "null": ["~", "n", "N", ""]}


class ScalarResolver(BaseResolver):
    """Finds the type of a scalar without quotes."""


class StudyDumper(yaml.SafeDumper):
    """Quotes each text that YAML 1.1 or YAML 1.2 reads as something else."""


for _name, _pattern in _PATTERNS.items():
    for _class in (ScalarResolver, StudyDumper):
        _class.add_implicit_resolver(f"{_TAG}{_name}", re.compile(rf"(?:{_pattern})\Z"), list(_FIRST_CHARACTERS[_name]))


def construct_scalar(node: yaml.ScalarNode) -> str | int | float | bool | None:
    """Return the value of a scalar.

    Raises:
        ValueError: the tag is not one of JSON's types or has no such value, or the number is too long or too large.
    """
    if node.tag == TEXT_TAG:
        return str(node.value)
    name = node.tag.removeprefix(_TAG)
    if name not in _CONSTRUCTORS:
        raise ValueError(f"the tag {node.tag[:60]} is not allowed: write text, a number, true, false or null")
    if name in ("int", "float") and len(node.value) > MAX_NUMBER_LENGTH:
        raise ValueError(f"this number has {len(node.value):,} characters: write at most {MAX_NUMBER_LENGTH}")
    if re.fullmatch(_PATTERNS[name], node.value) is None:
        raise ValueError(f"this value cannot be read: {node.value[:60]!r}")
    return _CONSTRUCTORS[name](node.value)


def _construct_integer(text: str) -> int:
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


def _construct_float(text: str) -> float:
    if text.lower().endswith(("inf", "nan")):
        return float(text.replace(".", ""))
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text} is too large")
    return number


_CONSTRUCTORS: Mapping[str, Callable[[str], int | float | bool | None]] = {
    "bool": lambda text: _BOOLEANS[text.lower()],
    "int": _construct_integer,
    "float": _construct_float,
    "null": lambda _text: None,
}
