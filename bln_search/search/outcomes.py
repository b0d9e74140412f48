"""The result of a point of a space: what a sampler learns from the trials of its seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from bln_search.core.states import TrialState
from bln_search.specs.sampled_trial import SampledTrial
from bln_search.specs.sections.search import Objective

_OPEN = {TrialState.WAITING, TrialState.RUNNING, TrialState.TRAINED}


@dataclass(frozen=True)
class PointOutcome:
    """The result of a point.

    Attributes:
        state: FINISHED if every trial of the point is finished, otherwise PRUNED, DIVERGED or FAILED.
        values: Mean of each objective over seeds; None without.
        reason: Why there are no values; None where there are some, or where the pruner stopped a trial.
    """

    state: TrialState
    values: list[float] | None = None
    reason: str | None = None


def find_point_outcome(
    records: Sequence[SampledTrial], objectives: Sequence[Objective], *, waits_for_failed: bool = False
) -> PointOutcome | None:
    """The result of a point from the trials of its seeds; None while one of them is open.

    Args:
        records: The trials.
        objectives: Of the search.
        waits_for_failed: FAILED if one of them has failed, whatever the others are; by default only where none was
            pruned and none diverged.
    """
    present = {record.state for record in records}
    if present & _OPEN:
        return None
    if present == {TrialState.FINISHED}:
        measured = [[record.objective_value(objective) for record in records] for objective in objectives]
        values = [[value for value in objective_values if value is not None] for objective_values in measured]
        if all(len(objective_values) == len(records) for objective_values in values):
            return PointOutcome(TrialState.FINISHED, [fmean(objective_values) for objective_values in values])
        return PointOutcome(TrialState.FINISHED, reason="an objective has no value")
    if waits_for_failed and TrialState.FAILED in present:
        return PointOutcome(TrialState.FAILED, reason=TrialState.FAILED.value)
    if TrialState.PRUNED in present:
        return PointOutcome(TrialState.PRUNED)
    state = TrialState.DIVERGED if TrialState.DIVERGED in present else TrialState.FAILED
    return PointOutcome(state, reason=state.value)
