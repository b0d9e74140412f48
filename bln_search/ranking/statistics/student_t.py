"""Student's t distribution for whole degrees of freedom, where SciPy is not: the service stays small without it.

Source: the closed forms of the distribution function for whole degrees of freedom, a finite sum of powers of a cosine
(Abramowitz & Stegun 1964, 26.7.3 and 26.7.4). Far out, where 1 less that sum has no digits left, the power series of
the incomplete beta function (26.5.4), all of whose terms are positive.
"""

from __future__ import annotations

import math
from functools import lru_cache

_HALVINGS = 200

_EPSILON = 1e-17
"""Terms that are smaller than this share of a sum add nothing to it."""

_FAR = 1e-3
"""Below it p is computed from the series of the tail."""


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
    return min(1.0, 1 - within) if within < 1 - _FAR else _tail(abs(t), degrees)


def _tail(t: float, degrees: int) -> float:
    """I_x(a, 1/2) with x = degrees/(degrees + t²) and a = degrees/2, as x^a/B(a, 1/2)·Σ (1/2)_n/n!·x^n/(a + n)."""
    half = degrees / 2
    ratio = t / math.sqrt(degrees)
    x = 1 / (1 + ratio * ratio)
    total, coefficient, n = 0.0, 1.0, 0
    while (term := coefficient / (half + n)) > total * _EPSILON:
        total += term
        coefficient *= x * (n + 0.5) / (n + 1)
        n += 1
    log_beta = math.lgamma(half) + math.lgamma(0.5) - math.lgamma(half + 0.5)
    return total * math.exp(-degrees * math.log(math.hypot(1, ratio)) - log_beta)


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
