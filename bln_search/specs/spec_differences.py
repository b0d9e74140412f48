"""The keys in which specifications of studies differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.specs.study import StudySpec

_DESCRIPTIVE = ("name", "title", "notes")
"""Keys without influence on results."""


@dataclass(frozen=True)
class KeyDifference:
    """A key whose values differ.

    Attributes:
        key: The key with its sections, as in `training.learning_rate`.
        values: Its value in each specification as text; None where it is not set.
    """

    key: str
    values: tuple[str | None, ...]


def list_key_differences(specs: Sequence[StudySpec]) -> list[KeyDifference]:
    """Return the keys whose values are not the same in all specifications, in the order of the study file.

    Sections are compared key by key, lists as one value. Of the arms the labels are compared, and the keys of those
    arms that all specifications have. Name, title and notes are left out.
    """
    common_arms = set.intersection(*({arm.label for arm in spec.arms} for spec in specs))
    flattened = [_flatten_study_spec(spec, common_arms) for spec in specs]
    keys = dict.fromkeys(key for values in flattened for key in values)
    rows = [KeyDifference(key, tuple(values.get(key) for values in flattened)) for key in keys]
    return [row for row in rows if len(set(row.values)) > 1]


def _flatten_study_spec(spec: StudySpec, arms: set[str]) -> dict[str, str]:
    content = spec.model_dump(mode="json", exclude=set(_DESCRIPTIVE))
    flattened = {"arms": ", ".join(arm.label for arm in spec.arms)}
    for arm, section in zip(spec.arms, content.pop("arms"), strict=True):
        if arm.label in arms:
            flattened |= _flatten_section(section, f"arms.{arm.label}.")
    return flattened | _flatten_section(content)


def _flatten_section(section: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return the set keys of a section and of the sections in it, with their values as text."""
    flattened: dict[str, str] = {}
    for key, value in section.items():
        if isinstance(value, Mapping):
            flattened |= _flatten_section(value, f"{prefix}{key}.")
        elif value is not None:
            flattened[f"{prefix}{key}"] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return flattened
