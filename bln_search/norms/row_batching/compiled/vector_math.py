"""Elementary functions of vectors in single precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from bln_search.norms.row_batching.compiled.simd import (
    exponent_of,
    mantissa_of,
    power_of_two,
    round_to_integer,
    select_if_equal,
    select_if_less,
    splat,
)

_TANH_LIMIT = 7.90531110763549805
"""Above, tanh is 1 in single precision."""

_LOG2_E = 1.44269504088896341
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4


@njit
def tanh(x: Any) -> Any:
    """Return tanh(x), by the rational function of Eigen: 13th over 6th degree."""
    x = select_if_less(_TANH_LIMIT, x, _TANH_LIMIT, x)
    x = select_if_less(x, -_TANH_LIMIT, -_TANH_LIMIT, x)
    square = x * x
    numerator = square * -2.76076847742355e-16 + 2.00018790482477e-13
    numerator = numerator * square + -8.60467152213735e-11
    numerator = numerator * square + 5.12229709037114e-08
    numerator = numerator * square + 1.48572235717979e-05
    numerator = numerator * square + 6.37261928875436e-04
    numerator = numerator * square + 4.89352455891786e-03
    denominator = square * 1.19825839466702e-06 + 1.18534705686654e-04
    denominator = denominator * square + 2.26843463243900e-03
    denominator = denominator * square + 4.89352518554385e-03
    return x * numerator / denominator


@njit
def exp(x: Any) -> Any:
    """Return exp(x) as the Cephes library; infinity above 88, exp(-87) below -87."""
    bounded = select_if_less(88.0, x, 88.0, select_if_less(x, -87.0, -87.0, x))
    n = round_to_integer(bounded * _LOG2_E)
    r = bounded - n * _LN2_HIGH - n * _LN2_LOW
    p = r * 1.9875691500e-4 + 1.3981999507e-3
    p = p * r + 8.3334519073e-3
    p = p * r + 4.1665795894e-2
    p = p * r + 1.6666665459e-1
    p = p * r + 5.0000001201e-1
    return select_if_less(88.0, x, np.inf, (p * (r * r) + r + 1.0) * power_of_two(n))


@njit
def log1p(x: Any) -> Any:
    """Return log(1 + x) for 0 ≤ x < 2¹²⁷, by Cephes' logarithm of u = 1 + x and the factor x/(u - 1)."""
    u = x + 1.0
    added = u - 1.0
    large = select_if_less(1.41421356, mantissa_of(u), splat(1.0), splat(0.0))
    m = mantissa_of(u) * (1.0 - large * 0.5)
    n = exponent_of(u) + large
    f = m - 1.0
    p = f * 7.0376836292e-2 + -1.1514610310e-1
    p = p * f + 1.1676998740e-1
    p = p * f + -1.2420140846e-1
    p = p * f + 1.4249322787e-1
    p = p * f + -1.6668057665e-1
    p = p * f + 2.0000714765e-1
    p = p * f + -2.4999993993e-1
    p = p * f + 3.3333331174e-1
    square = f * f
    log = p * f * square + n * _LN2_LOW - square * 0.5 + f + n * _LN2_HIGH
    return select_if_equal(added, 0.0, x, log * (x / added))
