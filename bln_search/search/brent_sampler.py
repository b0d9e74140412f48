"""Searches the one number of a space by Brent's method: each point depends on the results of all former ones."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from bln_search.core.errors import LedgerError
from bln_search.core.states import TrialState
from bln_search.search.brent import WORST, BoundedBrentMinimizer
from bln_search.search.outcomes import PointTrialRecord, find_point_outcome
from bln_search.specs.sections.search import SearchSpec
from bln_search.specs.sections.space import FloatDimension, Point, Space

_SAME_POINT = 1e-9
"""Relative difference up to which a point of the ledger counts as the suggested one: machines round 10 ** x
differently."""


class BrentSampler:
    """Suggests the points of `BoundedBrentMinimizer` for one arm, one at a time.

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
        self._search = BoundedBrentMinimizer(*dimension.bounds_on_scale)
        self._known: deque[Sequence[PointTrialRecord]] = deque()
        self._waits_for: str | None = None
        self.is_blocked_by_failed_trial = False

    @property
    def is_waiting_for_result(self) -> bool:
        """Whether the last point has no result yet."""
        return self._waits_for is not None

    def ask(self, point: Point | None = None) -> Point | None:  # noqa: ARG002 - no other points are taken
        """The next point; None at the end of the search, or while the last point has no result."""
        if self.is_waiting_for_result or self._search.point is None:
            return None
        return {self._key: self._dimension.value_from_scale(self._search.point)}

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
        self._search.tell(WORST)
        self._replay_known_results()

    def report_loss_and_should_prune(self, key: str, epoch: int, loss: float) -> bool:  # noqa: ARG002
        """Never: the search needs the result of every trial."""
        return False

    def tell(self, records: Sequence[PointTrialRecord]) -> None:
        """Take the result of the last point; do nothing for another one, or while one of its trials is open."""
        if records[0].key == self._waits_for:
            self._known.append(records)
            self._waits_for = None
            self._replay_known_results()

    def restore_from_ledger(self, points: Sequence[Sequence[PointTrialRecord]]) -> None:
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
            self._search.tell(WORST if outcome.values is None else outcome.values[0])

    def _is_at_suggested_point(self, records: Sequence[PointTrialRecord]) -> bool:
        if self._search.point is None:
            return False
        return self._is_same_point(
            records[0].parameters, {self._key: self._dimension.value_from_scale(self._search.point)}
        )

    def _is_same_point(self, stored: Point, suggested: Point) -> bool:
        return math.isclose(stored[self._key], suggested[self._key], rel_tol=_SAME_POINT)
