"""Zoom blur: the mean of an image and of enlargements of its middle.

Source of the constants: `make_cifar_c.py` of Hendrycks & Dietterich 2019.
"""

from __future__ import annotations

import numpy as np

from bln_search.data.corruptions.function import Generators, Images
from bln_search.data.corruptions.interpolation import zoom_weights

ZOOM_FACTORS = (7, 12, 16, 21, 26)
"""Number of factors 1, 1.01, 1.02, … for severities 1 to 5.

As in the published data set, the last one is 1.06 and 1.11 at severities 1 and 2 and 1.15, 1.20 and 1.25 above them.
"""


def zoom_blur(images: Images, severity: int, _: Generators) -> Images:
    """Return the mean of the image and its enlargements by each factor, each with the same weight.

    Images of few pixels may stay as they are at low severities: an enlargement by less than half a pixel is none.
    """
    total = images.copy()
    count = ZOOM_FACTORS[severity - 1]
    factors = np.arange(
        1.0, 0.995 + 0.01 * count, 0.01
    )  # with the rounding of the published ones: 26·1.25 is 33 pixels
    for factor in factors:
        rows, columns = (zoom_weights(length, float(factor)) for length in images.shape[2:])
        total += rows @ images @ columns.T
    return total / (len(factors) + 1)
