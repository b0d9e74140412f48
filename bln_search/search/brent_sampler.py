"""Searches the one number of a space by Brent's method: each point depends on the results of all former ones."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from scipy.optimize import minimize_scalar

from bln_search.core.errors import LedgerError
from bln_search.core.states import TrialState
from bln_search.search.outcomes import find_point_outcome
from bln_search.specs.sampled_trial import SampledTrial
from bln_search.specs.sections.search import SearchSpec
from bln_search.specs.sections.space import FloatDimension, Point, Space

WORST = 1e39
"""Value in place of one that is not finite: above every loss, which is a 32-bit number."""

_MOST_STEPS = 1_000_000
_SAME_POINT = 1e-9
"""Relative difference up to which a point of the ledger counts as the suggested one: machines round 10 ** x
differently."""


class _PointWithoutValueError(Exception):
    """The minimizer needs the value of the function at a point."""

    def __init__(self, point: float) -> None:
        self.point = point


def find_next_point(low: float, high: float, values: Sequence[float]) -> float | None:
    """Where SciPy's bounded Brent method evaluates a function next; None where it has found the minimum.

    SciPy calls a function, and a training is no function call: so the minimization is repeated with the known values.

    Args:
        low: Lower bound; never evaluated.
        high: Upper bound; never evaluated.
        values: Of the function at the points so far; one that is not finite counts as `WORST`.

    Source: Brent 1973, Algorithms for Minimization Without Derivatives, chapter 5.
    """
    known = iter(values)

    def evaluate(point: float) -> float:
        value = next(known, None)
        if value is None:
            raise _PointWithoutValueError(float(point))
        return min(value, WORST) if math.isfinite(value) else WORST

    try:
        minimize_scalar(evaluate, bounds=(low, high), method="bounded", options={"maxiter": _MOST_STEPS})
    except _PointWithoutValueError as needed:
        return needed.point
    return None


class BrentSampler:
    """Suggests the points of `find_next_point` for one arm, one at a time.

    Of a logarithmic dimension, log₁₀ is searched.

    It stores nothing: the search is repeated from the results in the ledger. A trial that diverged, and a rejected
    point, count as the worst value. A failed trial stops the search until another run has its result.

    Args:
        spec: The objective.
        space: One dimension, of the kind float.
    """

    accepts_points_from_elsewhere = False
    end_reason = "the sampler brent has found the minimum to its tolerance"

    def __init__(self, spec: SearchSpec, space: Space) -> None:
        ((self._key, dimension),) = space.items()
        assert isinstance(dimension, FloatDimension)
        self._spec, self._dimension = spec, dimension
        self._values: list[float] = []
        self._point = find_next_point(*dimension.bounds_on_scale, self._values)
        self._known: deque[Sequence[SampledTrial]] = deque()
        self._waits_for: str | None = None
        self.is_blocked_by_failed_trial = False

    @property
    def is_waiting_for_result(self) -> bool:
        """Whether the last point has no result yet."""
        return self._waits_for is not None

    def ask(self, point: Point | None = None) -> Point | None:  # noqa: ARG002 - no other points are taken
        """The next point; None at the end of the search, or while the last point has no result."""
        if self.is_waiting_for_result or self._point is None:
            return None
        return {self._key: self._dimension.value_from_scale(self._point)}

    def draw_random_point(self) -> Point:
        """Not supported: the search takes no other points."""
        raise NotImplementedError

    def point_of_suggestion(self, suggestion: Point) -> Point:
        """The point itself."""
        return suggestion

    def accept_suggestion(self, _point: Point, key: str) -> None:
        """Register the point as stored; `key`: the key of its first trial."""
        self._waits_for = key

    def reject_suggestion(self, point: Point, _reason: str) -> None:
        """Count the point as the worst one.

        Raises:
            LedgerError: The point is stored, but does not follow from the results that are stored before it.
        """
        if any(self._is_same_point(records[0].parameters, point) for records in self._known):
            raise LedgerError(
                "the points of the sampler brent that are stored do not follow from their results, which were changed "
                "or are of another version: submit the study anew under another name"
            )
        self._add_value(WORST)
        self._replay_known_results()

    def report_loss_and_should_prune(self, key: str, epoch: int, loss: float) -> bool:  # noqa: ARG002
        """Never: the search needs the result of every trial."""
        return False

    def tell(self, records: Sequence[SampledTrial]) -> None:
        """Take the result of the last point; do nothing for another one, or while one of its trials is open."""
        if records[0].key == self._waits_for:
            self._known.append(records)
            self._waits_for = None
            self._replay_known_results()

    def restore_from_ledger(self, points: Sequence[Sequence[SampledTrial]]) -> None:
        """Repeat the search with the results of the ledger."""
        self._known.extend(points)
        self._replay_known_results()

    def close(self) -> None:
        """Do nothing: there are no connections."""

    def _replay_known_results(self) -> None:
        """Tell the known results as long as they are those of the suggested points."""
        while self._known and self._is_at_suggested_point(self._known[0]):
            records = self._known.popleft()
            outcome = find_point_outcome(records, self._spec.objectives, waits_for_failed=True)
            self.is_blocked_by_failed_trial = outcome is not None and outcome.state is TrialState.FAILED
            if outcome is None or self.is_blocked_by_failed_trial:
                self._waits_for = records[0].key
                return
            self._add_value(WORST if outcome.values is None else outcome.values[0])

    def _add_value(self, value: float) -> None:
        """Take the value at the present point, and find the next one."""
        self._values.append(value)
        self._point = find_next_point(*self._dimension.bounds_on_scale, self._values)

    def _is_at_suggested_point(self, records: Sequence[SampledTrial]) -> bool:
        if self._point is None:
            return False
        return self._is_same_point(records[0].parameters, {self._key: self._dimension.value_from_scale(self._point)})

    def _is_same_point(self, stored: Point, suggested: Point) -> bool:
        return math.isclose(stored[self._key], suggested[self._key], rel_tol=_SAME_POINT)
