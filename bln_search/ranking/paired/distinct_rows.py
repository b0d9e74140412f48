"""Rows of a table with the same outcomes count as one row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_RELATIVE, _ABSOLUTE = 1e-5, 1e-6
"""Differences up to which outcomes are equal but for rounding: mini-batches change the order of summation. The absolute
one is in units of the mean outcome where that is below 1."""

_RELATIVE_DOUBLE = 1e-12
"""The same for outcomes in double precision, which are scores as they were reported."""


@dataclass(frozen=True)
class DistinctRows:
    """The rows of a table that differ from one another.

    Attributes:
        kept: Indices of the first of each set of equal rows, (D,), ascending.
        of_row: For each row the position in `kept` of the row that is equal to it, (K,).
    """

    kept: NDArray[np.intp]
    of_row: NDArray[np.intp]


def find_distinct_rows(values: NDArray[np.float32] | NDArray[np.float64]) -> DistinctRows:
    """Find rows of values (S, K, N) that are equal but for rounding."""
    means = values.mean(axis=(0, 2), dtype=np.float64)
    is_double = values.dtype == np.float64
    relative = _RELATIVE_DOUBLE if is_double else _RELATIVE
    absolute = 0.0 if is_double else _ABSOLUTE * min(1.0, float(np.abs(values).mean()))
    kept: list[int] = []
    of_row = np.empty(len(means), np.intp)
    for row, mean in enumerate(means):
        near = np.flatnonzero(np.isclose(mean, means[kept], relative, absolute)) if kept else ()
        equal = (place for place in near if np.allclose(values[:, row], values[:, kept[place]], relative, absolute))
        of_row[row] = next(equal, len(kept))
        if of_row[row] == len(kept):
            kept.append(row)
    return DistinctRows(np.asarray(kept, np.intp), of_row)
