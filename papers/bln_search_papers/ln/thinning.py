"""Thinning of binary images to lines that are one pixel wide.

Source: Zhang & Suen 1984, A Fast Parallel Algorithm for Thinning Digital Patterns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SLICE_IMAGES = 2_048

_NEIGHBOURS = ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))
"""Rows and columns of P2 to P9 of the source relative to the pixel P1, clockwise from the one above."""


def thin(images: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the skeletons of images (n, h, w); pixels outside an image are background.

    Each iteration has two passes. A pass deletes a pixel if it has two to six neighbours, if these are one connected
    part of the ring around it, and if it is at an edge in the south-east (first pass) or north-west (second pass).
    """
    skeletons = images.copy()
    for start in range(0, len(images), _SLICE_IMAGES):
        _thin_slice(skeletons[start : start + _SLICE_IMAGES])
    return skeletons


def _thin_slice(images: NDArray[np.bool_]) -> None:
    """Thin images in place; images that no longer change are left out of further passes."""
    changing = np.arange(len(images))
    while len(changing):
        thinned = images[changing]
        for is_deletable in _IS_DELETABLE:
            thinned = thinned & ~is_deletable[_encode_neighbours(thinned)]
        has_changed = (thinned != images[changing]).any((1, 2))
        images[changing] = thinned
        changing = changing[has_changed]


def _encode_neighbours(images: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return for each pixel a number whose bit k is the neighbour P(k + 2)."""
    height, width = images.shape[1:]
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1))).astype(np.uint8)
    codes = np.zeros(images.shape, np.uint8)
    for bit, (row, column) in enumerate(_NEIGHBOURS):
        codes |= padded[:, 1 + row : 1 + row + height, 1 + column : 1 + column + width] << bit
    return codes


def _make_table(first: tuple[int, int, int], second: tuple[int, int, int]) -> NDArray[np.bool_]:
    """Return for each code of neighbours whether a pass deletes the pixel.

    Args:
        first: numbers of three neighbours, one of which must be background.
        second: the same, of three others.
    """
    present = (np.arange(256)[:, None] >> np.arange(8)) & 1
    number = present.sum(1)
    transitions = ((present == 0) & (np.roll(present, -1, 1) == 1)).sum(1)
    is_edge = [present[:, np.array(three) - 2].prod(1) == 0 for three in (first, second)]
    table: NDArray[np.bool_] = (number >= 2) & (number <= 6) & (transitions == 1) & is_edge[0] & is_edge[1]
    return table


_IS_DELETABLE = (_make_table((2, 4, 6), (4, 6, 8)), _make_table((2, 4, 8), (2, 6, 8)))
