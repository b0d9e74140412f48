"""What all parts of a study file share."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer, model_validator


def writable(text: str) -> str:
    """The text, if every database and file can keep it: no NUL, no half of a character."""
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("this text holds characters that cannot be written down")
    return text


MOST_VALUES = 50_000
"""Keys and values in a study."""


def check_writable(value: object) -> None:
    """Raise ValueError for a text anywhere inside `value` that cannot be written down, or for too many values."""
    waiting, seen = [value], 0
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            writable(one)
        inner = [*one, *one.values()] if isinstance(one, dict) else one if isinstance(one, list | tuple) else ()
        seen += len(inner)
        if seen > MOST_VALUES:
            raise ValueError(f"there are more than {MOST_VALUES:,} keys and values in it: a study needs far fewer")
        waiting += inner


class Spec(BaseModel):
    """Immutable; an unknown key or a number that is not finite is an error.

    added_later: keys that earlier versions did not know. Left out of the written form while at their default, so that
    a study accepted by an earlier version is still the same study.
    takes_words: keys whose values may be yes or no, whatever they stand for.
    """

    added_later: ClassVar[frozenset[str]] = frozenset()
    takes_words: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _no_words_for_numbers(cls, values: Any) -> Any:
        """YAML reads `yes` and `on` as true, which would pass for the number 1."""
        for name, value in values.items() if isinstance(values, dict) else ():
            members = value if isinstance(value, list) else [value]
            field = cls.model_fields.get(name)
            words = name in cls.takes_words or (field is not None and field.annotation is bool)
            if field is not None and not words and any(isinstance(one, bool) for one in members):
                raise ValueError(f"{name} takes no yes or no")
        return values

    @model_serializer(mode="wrap")
    def _without_unused(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = written(self)
        for name in self.added_later:
            if getattr(self, name) == type(self).model_fields[name].default:
                values.pop(type(self).model_fields[name].alias or name, None)
        return values

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        validate_default=True,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )


Entry = TypeVar("Entry")


def each_once(values: tuple[Entry, ...], name: str) -> tuple[Entry, ...]:
    """The values of a list. Raises ValueError where one stands there twice."""
    if len(set(values)) < len(values):
        raise ValueError(f"{name} names a value twice: each counts once")
    return values
