"""Student's t distribution for whole degrees of freedom, where SciPy is not: the service stays small without it.

Source: the closed forms of the distribution function for whole degrees of freedom, a finite sum of powers of a cosine
(Abramowitz & Stegun 1964, 26.7.3 and 26.7.4).
"""

from __future__ import annotations

import math
from functools import lru_cache

_HALVINGS = 200


def two_sided_p(t: float, degrees: int) -> float:
    """Probability of a value at least as far from 0 as `t`. Raises ValueError for fewer than one degree of freedom."""
    if degrees < 1:
        raise ValueError(f"Student's t needs one degree of freedom at least, not {degrees}")
    if math.isnan(t):
        raise ValueError("Student's t of a value that is not a number")
    angle = math.atan(abs(t) / math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    term = cosine if degrees % 2 else 1.0
    total = 0.0
    for k in range(degrees % 2, degrees - 1, 2):
        total += term
        term *= cosine * cosine * (k + 1) / (k + 2)
    within = (angle + sine * total) * 2 / math.pi if degrees % 2 else sine * total
    return min(1.0, max(0.0, 1 - within))


@lru_cache(maxsize=1024)
def quantile(level: float, degrees: int) -> float:
    """The t between whose two signs lies a share `level` of the distribution: 2.776 for 0.95 and four degrees."""
    if not 0 < level < 1:
        raise ValueError(f"a level lies between 0 and 1, not {level}")
    low, high = 0.0, 1.0
    while two_sided_p(high, degrees) > 1 - level:
        low, high = high, high * 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if two_sided_p(middle, degrees) > 1 - level else (low, middle)
    return high
