"""The examples on which rows are compared: all of them, or a random sample of a very large split."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MAX_COMPARED_EXAMPLES = 50_000
"""Number of examples beyond which a comparison uses a sample of this size: its time grows with their number."""


def draw_compared_examples(examples: int) -> NDArray[np.intp] | None:
    """Return the sorted positions of the examples that are compared, None for all. The same for each call."""
    if examples <= MAX_COMPARED_EXAMPLES:
        return None
    positions: NDArray[np.intp] = np.random.default_rng(0).choice(examples, MAX_COMPARED_EXAMPLES, replace=False)
    return np.sort(positions)
