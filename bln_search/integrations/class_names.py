"""Classes of other libraries by name, where importing them is expensive or they exist in several packages."""

from __future__ import annotations

from collections.abc import Collection


def has_class_name(value: object, names: Collection[str]) -> bool:
    """Whether an object is of a class with one of these names, or of a subclass."""
    return any(each.__name__ in names for each in type(value).__mro__)
