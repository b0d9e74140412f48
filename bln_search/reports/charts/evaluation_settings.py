"""Selection of the evaluation settings and points of a study that charts show."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.records import RowKey
from bln_search.core.states import EvaluationState, TrialState
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.grouping import LossBySeed, RowKeyWithoutConfiguration
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.reports.charts.chart import Chart
from bln_search.reports.charts.configurations import (
    ByConfiguration,
    configuration_losses_heat_map,
    configuration_ranks_chart,
)
from bln_search.reports.charts.search import SearchPointResult, flatten_parameters
from bln_search.reports.sentences.leaderboard import find_unranked_reason
from bln_search.specs.records import TrialRecord
from bln_search.specs.sampled_trial import SampledTrial
from bln_search.specs.sections.space import HORIZON_KEY
from bln_search.specs.study import StudySpec

_MAX_POINTS = 8


def restrict_to_settings_of_best_points(
    settings: Mapping[RowKeyWithoutConfiguration, ByConfiguration],
) -> dict[RowKeyWithoutConfiguration, ByConfiguration]:
    """The settings of the best points of a search space, best first; all settings of a study without a space.

    Only rows with the largest number of seeds count, because a row that diverged under some seeds is not the best.
    """
    if not any(setting.point for setting in settings):
        return dict(settings)
    best: dict[tuple[str, str], float] = {}
    seeds = max((len(values) for losses in settings.values() for values in losses.values()), default=0)
    for setting, losses in settings.items():
        complete = {name: values for name, values in losses.items() if len(values) == seeds}
        if not complete:
            continue
        lowest_loss = lowest_mean_loss_of_setting(complete)
        best[setting.arm, setting.point] = min(lowest_loss, best.get((setting.arm, setting.point), lowest_loss))
    places = {key: place for place, key in enumerate(sorted(best, key=best.__getitem__)[:_MAX_POINTS])}
    drawn = [setting for setting in settings if (setting.arm, setting.point) in places]
    return {
        setting: settings[setting] for setting in sorted(drawn, key=lambda setting: places[setting.arm, setting.point])
    }


def reasons_for_missing_loss_by_configuration(
    board: Leaderboard, setting: RowKeyWithoutConfiguration
) -> dict[InferenceConfiguration, str]:
    """Why configurations have no loss under an evaluation setting: `undefined: …`, or the seeds that they lack."""
    rows = (
        row
        for row in board.rows
        if (row.arm, row.point, row.batch_size) == (setting.arm, setting.point, setting.batch_size)
        and row.estimate in (None, setting.estimate)
    )
    reasons = ((row, find_unranked_reason(row)) for row in rows)
    return {
        row.configuration: reason if row.state is EvaluationState.MEASURED else f"{row.state}: {reason}"
        for row, reason in reasons
        if reason is not None
    }


def setting_configurations_chart(
    losses: ByConfiguration,
    board: Leaderboard,
    setting: RowKeyWithoutConfiguration,
    analysis: Analysis | None,
    *,
    unit: str,
) -> Chart | None:
    """Loss of every configuration under an evaluation setting, with the recommended one marked if it is among them.

    Args:
        losses: Losses of the configurations under the setting.
        board: The leaderboard.
        setting: The evaluation setting.
        analysis: The analysis; None for a study without one.
        unit: Unit of the loss; empty for a loss without one.
    """
    comparison = None if analysis is None else analysis.comparison
    return configuration_losses_heat_map(
        losses,
        reasons_for_missing_loss_by_configuration(board, setting),
        unit=unit,
        margin=None if comparison is None else comparison.margin,
        recommended=_find_recommended_configuration(analysis, setting),
    )


def _find_recommended_configuration(
    analysis: Analysis | None, setting: RowKeyWithoutConfiguration
) -> InferenceConfiguration | None:
    """The configuration of the recommended row if the row belongs to an evaluation setting, else None."""
    recommendation = None if analysis is None else analysis.recommendation
    if recommendation is None or (recommendation.arm, recommendation.point) != (setting.arm, setting.point):
        return None
    has_estimate = recommendation.estimate in (None, setting.estimate)
    has_size = recommendation.deterministic or recommendation.batch_size == setting.batch_size
    return recommendation.key.configuration if has_estimate and has_size else None


def lowest_mean_loss_of_setting(losses: ByConfiguration) -> float:
    """The lowest mean loss (nats) under an evaluation setting."""
    return min(statistics.fmean(values.values()) for values in losses.values())


def best_point_configuration_ranks_chart(
    settings: Mapping[RowKeyWithoutConfiguration, ByConfiguration], limit: int
) -> Chart | None:
    """Ranks over estimates and batch sizes; for a search only those of its best point, because points are many."""
    best = next(((setting.arm, setting.point) for setting in settings if setting.point), None)
    drawn = [setting for setting in settings if best in (None, (setting.arm, setting.point))][:limit]
    return configuration_ranks_chart({setting: settings[setting] for setting in drawn})


def search_point_results_from_rows(
    losses: Mapping[RowKey, LossBySeed], seconds: Mapping[tuple[str, str], float]
) -> list[SearchPointResult]:
    """Every point with its lowest mean loss over rows with the largest number of seeds.

    Args:
        losses: Losses by seed of every row.
        seconds: Inference time of 1,000 examples by arm and point, as far as it was measured.
    """
    best: dict[tuple[str, str], float] = {}
    seeds = max((len(values) for values in losses.values()), default=0)
    for key, values in losses.items():
        if key.point and len(values) == seeds:
            mean = statistics.fmean(values.values())
            best[key.arm, key.point] = min(mean, best.get((key.arm, key.point), mean))
    return [
        SearchPointResult(arm, flatten_parameters(json.loads(point)), loss, seconds.get((arm, point)))
        for (arm, point), loss in best.items()
    ]


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
