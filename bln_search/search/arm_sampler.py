"""What samplers of points have in common: each suggests the points of one arm and receives their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from bln_search.specs.sampled_trial import SampledTrial
from bln_search.specs.sections.space import Point


class ArmPointSampler(Protocol):
    """Suggests points of the space for one arm of one study. A suggestion may be of any type."""

    @property
    def accepts_points_from_elsewhere(self) -> bool:
        """Whether points from elsewhere may be added to those of the sampler."""

    @property
    def is_waiting_for_result(self) -> bool:
        """Whether the next point depends on a result that is not known yet."""

    @property
    def is_blocked_by_failed_trial(self) -> bool:
        """Whether that result needs a further run, because a trial has failed."""

    @property
    def end_reason(self) -> str:
        """Why the sampler has no further point."""

    def ask(self, point: Point | None = None) -> Any:
        """The next suggestion, or one at `point`; None if there is none.

        The caller must then call `accept_suggestion` or `reject_suggestion`.
        """

    def draw_random_point(self) -> Point:
        """A point drawn uniformly from the space."""

    def point_of_suggestion(self, suggestion: Any, /) -> Point:
        """The point of a suggestion."""

    def accept_suggestion(self, suggestion: Any, key: str, /) -> None:
        """Register a suggested point that is in the ledger; `key`: the key of its first trial."""

    def reject_suggestion(self, suggestion: Any, reason: str, /) -> None:
        """Reject a suggested point: it will not be trained."""

    def report_loss_and_should_prune(self, key: str, epoch: int, loss: float) -> bool:
        """Report the loss of the trial `key` after an epoch; returns whether a pruner stops it."""

    def tell(self, records: Sequence[SampledTrial]) -> None:
        """Tell the sampler the result of a point; do nothing while one of its trials is open."""

    def restore_from_ledger(self, points: Sequence[Sequence[SampledTrial]]) -> None:
        """Restore the state of the search from the points of the ledger, in their order."""

    def close(self) -> None:
        """Close connections."""
