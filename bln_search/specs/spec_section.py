"""The base class of all sections of a study file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, ClassVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    model_serializer,
    model_validator,
)


def require_storable_text(text: str) -> str:
    """Return the text. Raises ValueError for NUL or a lone surrogate, which no database or file can store."""
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("this text has characters that cannot be stored (NUL or a lone surrogate): remove them")
    return text


MAX_VALUES = 50_000
"""Largest number of keys and values in a study."""


def check_storable_texts_and_size(value: object) -> None:
    """Raise ValueError if a text inside `value` cannot be stored, or if it has too many keys and values."""
    pending, count = [value], 0
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            require_storable_text(item)
        children = [*item, *item.values()] if isinstance(item, dict) else item if isinstance(item, list | tuple) else ()
        count += len(children)
        if count > MAX_VALUES:
            raise ValueError(f"there are more than {MAX_VALUES:,} keys and values in it: a study needs far fewer")
        pending += children


class SpecSection(BaseModel):
    """A section of a study file: immutable; unknown keys and numbers that are not finite are errors.

    Attributes:
        added_later: Keys that earlier versions did not have. They are not serialized while they have their default, so
            that the digest of a study from an earlier version stays the same.
        takes_booleans: Keys of any type whose values may be yes or no.
        set_by_service: Keys that no file may contain.
    """

    added_later: ClassVar[frozenset[str]] = frozenset()
    takes_booleans: ClassVar[frozenset[str]] = frozenset()
    set_by_service: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _reject_booleans_as_numbers(cls, values: Any) -> Any:
        """Reject true and false for numbers: YAML reads `yes` and `on` as true, which pydantic accepts as 1."""
        for name, value in values.items() if isinstance(values, dict) else ():
            members = value if isinstance(value, list) else [value]
            field = cls.model_fields.get(name)
            is_boolean = name in cls.takes_booleans or (field is not None and _is_boolean(field.annotation))
            if field is not None and not is_boolean and any(isinstance(member, bool) for member in members):
                raise ValueError(f"{name} does not take yes or no")
        return values

    @model_serializer(mode="wrap")
    def _serialize_without_later_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return drop_defaults_of_later_keys(self, serialize(self))

    def canonical_json(self, *, exclude: set[str] | None = None) -> str:
        """The section as JSON with every default and with sorted keys; digests are computed from it."""
        return json.dumps(self.model_dump(mode="json", exclude=exclude), sort_keys=True, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON: sections with equal digests mean the same."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        validate_default=True,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )


def _is_boolean(annotation: object) -> bool:
    """Is this bool, or a union with it?"""
    return bool in (annotation, *get_args(annotation))


def drop_defaults_of_later_keys(section: SpecSection, values: dict[str, Any]) -> dict[str, Any]:
    """The serialized values of a section without keys of later versions that have their default."""
    for name in section.added_later:
        field = type(section).model_fields[name]
        if getattr(section, name) == field.default:
            values.pop(field.alias or name, None)
    return values


def require_unique(values: Sequence[Any], name: str) -> None:
    """Raise ValueError if a value is repeated."""
    repeated = next((value for position, value in enumerate(values) if value in values[:position]), None)
    if repeated is not None:
        raise ValueError(f"{name} has the value {repeated} more than once: write each value once")


def _check_unique(values: Any, info: ValidationInfo) -> Any:
    if isinstance(values, tuple):
        require_unique(values, str(info.field_name))
    return values


Unique = AfterValidator(_check_unique)
"""Annotation of a list in which no value is repeated."""

Storable = AfterValidator(require_storable_text)
"""Annotation of a text that any file and database can store."""
