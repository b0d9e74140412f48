"""Bounded minimization of a function of one number by Brent's method, one value at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

GOLDEN = 0.5 * (3.0 - math.sqrt(5.0))
"""Fraction of a golden-section step."""

WORST = 1e39
"""Value in place of one that is not finite: above every loss, which is a 32-bit number."""

_ROUNDING = math.sqrt(2.2e-16)


@dataclass(frozen=True)
class _Evaluation:
    x: float
    value: float


class BoundedBrentMinimizer:
    """Brent's method between two bounds (Brent 1973, Algorithms for Minimization Without Derivatives, chapter 5).

    A step is the minimum of the parabola through the three best points, if that lies inside the interval and steps
    become smaller; otherwise a golden-section step. The points are those of `scipy.optimize.minimize_scalar` with the
    method `bounded`, for a function whose values are at most `WORST`.

    Args:
        low: Lower bound; never evaluated.
        high: Upper bound; never evaluated.
        tolerance: Distance of the minimum at which the search ends, in the unit of the bounds.

    Attributes:
        point: Where the function must be evaluated next; None after the end.
    """

    def __init__(self, low: float, high: float, *, tolerance: float = 1e-5) -> None:
        self._low, self._high, self._tolerance = low, high, tolerance
        self._best: _Evaluation | None = None
        self._second = self._third = _Evaluation(math.nan, math.nan)
        self._step = self._step_before = 0.0
        self.point: float | None = low + GOLDEN * (high - low)

    def tell(self, value: float) -> None:
        """Take the value of the function at `point`; one that is not finite counts as `WORST`."""
        assert self.point is not None
        evaluation = _Evaluation(self.point, min(value, WORST) if math.isfinite(value) else WORST)
        if self._best is None:
            self._best = self._second = self._third = evaluation
        else:
            self._best = self._narrow_interval(self._best, evaluation)
        self.point = self._next_point(self._best)

    def _narrow_interval(self, best: _Evaluation, new: _Evaluation) -> _Evaluation:
        """Narrow the interval by an evaluation; returns the best one."""
        if new.value <= best.value:
            if new.x >= best.x:
                self._low = best.x
            else:
                self._high = best.x
            self._third, self._second = self._second, best
            return new
        if new.x < best.x:
            self._low = new.x
        else:
            self._high = new.x
        if new.value <= self._second.value or self._second.x == best.x:
            self._third, self._second = self._second, new
        elif new.value <= self._third.value or self._third.x in (best.x, self._second.x):
            self._third = new
        return best

    def _next_point(self, best: _Evaluation) -> float | None:
        """The next point; None where the interval is as short as the tolerance."""
        x, middle = best.x, 0.5 * (self._low + self._high)
        shortest = _ROUNDING * abs(x) + self._tolerance / 3.0
        if not abs(x - middle) > 2.0 * shortest - 0.5 * (self._high - self._low):
            return None
        step = self._find_parabolic_step(best, middle, shortest) if abs(self._step_before) > shortest else None
        if step is None:
            self._step_before = self._low - x if x >= middle else self._high - x
            step = GOLDEN * self._step_before
        self._step = step
        return x + math.copysign(max(abs(step), shortest), step or 1.0)

    def _find_parabolic_step(self, best: _Evaluation, middle: float, shortest: float) -> float | None:
        """The step to the minimum of the parabola; None where it is not acceptable."""
        x, low, high = best.x, self._low, self._high
        r = (x - self._second.x) * (best.value - self._third.value)
        q = (x - self._third.x) * (best.value - self._second.value)
        p = (x - self._third.x) * q - (x - self._second.x) * r
        q = 2.0 * (q - r)
        p, q = -p if q > 0.0 else p, abs(q)
        step_before, self._step_before = self._step_before, self._step
        if not (abs(p) < abs(0.5 * q * step_before) and q * (low - x) < p < q * (high - x)):
            return None
        step = p / q
        if x + step - low < 2.0 * shortest or high - (x + step) < 2.0 * shortest:
            return math.copysign(shortest, (middle - x) or 1.0)
        return step
