"""Student's t distribution for integer degrees of freedom without SciPy, which the service does not depend on.

The distribution function has a closed form for integer degrees of freedom, a finite sum of powers of a cosine
(Abramowitz & Stegun 1964, 26.7.3 and 26.7.4). In the tail, where 1 minus that sum loses all digits, the power series of
the incomplete beta function (26.5.4) is used, whose terms are all positive.
"""

from __future__ import annotations

import math
from functools import lru_cache

_MAX_BISECTIONS = 200

_SERIES_TOLERANCE = 1e-17
"""Relative size below which terms of the series are ignored."""

_TAIL_P = 1e-3
"""p value below which the series is used."""


def two_sided_p_value(t: float, degrees: int) -> float:
    """Two-sided p value of `t`. Raises ValueError for fewer than one degree of freedom."""
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
    return min(1.0, 1 - within) if within < 1 - _TAIL_P else _tail_probability(abs(t), degrees)


def _tail_probability(t: float, degrees: int) -> float:
    """I_x(a, 1/2) with x = degrees/(degrees + t²) and a = degrees/2, as x^a/B(a, 1/2)·Σ (1/2)_n/n!·x^n/(a + n)."""
    half = degrees / 2
    ratio = t / math.sqrt(degrees)
    x = 1 / (1 + ratio * ratio)
    total, coefficient, n = 0.0, 1.0, 0
    while (term := coefficient / (half + n)) > total * _SERIES_TOLERANCE:
        total += term
        coefficient *= x * (n + 0.5) / (n + 1)
        n += 1
    log_beta = math.lgamma(half) + math.lgamma(0.5) - math.lgamma(half + 0.5)
    return total * math.exp(-degrees * math.log(math.hypot(1, ratio)) - log_beta)


@lru_cache(maxsize=1024)
def two_sided_t_quantile(level: float, degrees: int) -> float:
    """The t for which P(|T| ≤ t) = `level`: 2.776 for 0.95 and four degrees of freedom."""
    if not 0 < level < 1:
        raise ValueError(f"a level lies between 0 and 1, not {level}")
    low, high = 0.0, 1.0
    while two_sided_p_value(high, degrees) > 1 - level:
        low, high = high, high * 2
    for _ in range(_MAX_BISECTIONS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if two_sided_p_value(middle, degrees) > 1 - level else (low, middle)
    return high
