"""Corruptions by name: built-in ones, and those of installed packages."""

from __future__ import annotations

from typing import cast

from bln_search.core.errors import DataError
from bln_search.core.registry import CORRUPTIONS
from bln_search.data.corruptions.function import CorruptionFunction


def get_corruption_function(name: str) -> CorruptionFunction:
    """Return the corruption of a name.

    Raises:
        DataError: There is no such corruption, or its package cannot be loaded.
    """
    function = CORRUPTIONS.load_object(name, CORRUPTIONS.load_info(name))
    if not callable(function):
        raise DataError(f"the corruption {name} of an installed package is not a function of images")
    return cast("CorruptionFunction", function)
