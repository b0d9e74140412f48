"""What a corruption is: a function of images, severity and random generators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import DataError
from bln_search.core.registry import CORRUPTIONS

Images = NDArray[np.float64]
"""Images (N, C, H, W) with one or three channels and values from 0 to 1."""

Generators = Iterable[np.random.Generator]
"""One random generator for each image, created when it is read."""


class CorruptionFunction(Protocol):
    """A corruption of images. The result for an image depends on this image, the severity and its generator only."""

    def __call__(self, images: Images, severity: int, generators: Generators, /) -> NDArray[np.floating[Any]]:
        """Return the corrupted images.

        Args:
            images: (N, C, H, W), values from 0 to 1; not to be changed in place.
            severity: From 1 to 5.
            generators: One random generator for each image. It is the same under every severity.

        Returns:
            Images of the same shape. Values outside 0 to 1 are clipped by the caller.
        """


def get_corruption_function(name: str) -> CorruptionFunction:
    """Return the corruption of a name.

    Raises:
        DataError: There is no such corruption, or its package cannot be loaded.
    """
    function = CORRUPTIONS.load_object(name, CORRUPTIONS.load_info(name))
    if not callable(function):
        raise DataError(f"the corruption {name} of an installed package is not a function of images")
    return cast("CorruptionFunction", function)
