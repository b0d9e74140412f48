"""Points of a search whose best points are trained afterwards, with the objective of its trials."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence

from bln_search.core.states import TrialState
from bln_search.reports.charts.search import SearchPointResult, flatten_parameters
from bln_search.specs.records import SampledTrial, TrialRecord
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import HORIZON_KEY

LOSS_MEASURE = "loss"
"""What charts of a search compare points by, where every point has rows in the leaderboard."""


def search_measure_name(spec: StudySpec) -> str:
    """What charts of a search compare points by: the loss, or the objective of trials that have no rows."""
    if spec.search is None or not spec.trains_best_points_after_search:
        return LOSS_MEASURE
    return f"{spec.search.objectives[0].value.replace('_', ' ')} (search)"


def search_point_results_from_trials(trials: Sequence[TrialRecord], spec: StudySpec) -> list[SearchPointResult]:
    """Every point whose search trials are finished for all seeds, with the mean of the objective over them.

    Args:
        trials: All trials of the study; the full trainings of the best points are ignored.
        spec: The study, whose search trains the best points afterwards.
    """
    if spec.search is None:
        return []
    values: dict[tuple[str, str], list[float]] = {}
    for trial in trials:
        if trial.is_search_phase_trial and trial.state is TrialState.FINISHED:
            value = SampledTrial(trial).objective_value(spec.search.objectives[0])
            if value is not None:
                values.setdefault((trial.arm, trial.point_json), []).append(value)
    return [
        SearchPointResult(arm, _searched_parameters(point), statistics.fmean(of_point))
        for (arm, point), of_point in values.items()
        if len(of_point) == len(spec.seeds_per_point)
    ]


def _searched_parameters(point: str) -> dict[str, object]:
    return {name: value for name, value in flatten_parameters(json.loads(point)).items() if name != HORIZON_KEY}
