"""The catalogue of corruptions: built-in ones, and those of installed packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from bln_search.core.errors import DataError
from bln_search.core.registry import find_corruption_problem, plugin_corruption_entry_points
from bln_search.data.corruptions.blur import defocus_blur, motion_blur
from bln_search.data.corruptions.digital import contrast, jpeg, pixelate
from bln_search.data.corruptions.function import CorruptionFunction
from bln_search.data.corruptions.noise import gaussian_noise, impulse_noise, shot_noise
from bln_search.data.corruptions.weather import brightness, fog

CATALOG: Mapping[str, CorruptionFunction] = {
    "brightness": brightness,
    "contrast": contrast,
    "defocus_blur": defocus_blur,
    "fog": fog,
    "gaussian_noise": gaussian_noise,
    "impulse_noise": impulse_noise,
    "jpeg": jpeg,
    "motion_blur": motion_blur,
    "pixelate": pixelate,
    "shot_noise": shot_noise,
}
"""Built-in corruptions by name."""


def get_corruption_function(name: str) -> CorruptionFunction:
    """Return the corruption of a name.

    Raises:
        DataError: There is no such corruption, or its package cannot be loaded.
    """
    problem = find_corruption_problem(name)
    if problem is not None:
        raise DataError(problem)
    if name in CATALOG:
        return CATALOG[name]
    try:
        function = plugin_corruption_entry_points()[name].load()
    except Exception as error:
        raise DataError(f"the corruption {name} of an installed package cannot be loaded: {error}") from error
    if not callable(function):
        raise DataError(f"the corruption {name} of an installed package is not a function of images")
    return cast("CorruptionFunction", function)
