"""Charts of a comparison of studies: ranks by evaluation setting, and training curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from bln_search.core.enums import Split
from bln_search.ranking.grouping import group_losses_by_setting_and_configuration
from bln_search.reports.charts import Chart
from bln_search.reports.charts.chart import distinguishing_setting_label, make_labels_unique
from bln_search.reports.charts.configurations import configuration_ranks_chart_by_label
from bln_search.reports.charts.curves import LOSS, TrialLearningCurve, learning_curves_chart
from bln_search.specs.sections.point_labels import make_label_by_distinct_point
from bln_search.storage.tokens import Bearer
from service.context import AppContext, ContextDep
from service.http.problems import ProblemException
from service.pages.compared_studies import MAX_STUDIES, SplitChoice, Studies, get_leaderboards_of_studies
from service.pages.rendering.chart_responses import make_chart_csv_response, make_figure_or_reason_response
from service.security import Reader

router = APIRouter(prefix="/compare", include_in_schema=False)
_MAX_SETTINGS = 6
"""Evaluation settings of each study in the chart of ranks."""

_MAX_CURVES = 20
"""Curves of each study."""


class _ComparisonChart(NamedTuple):
    draw: Callable[[AppContext, Bearer, Sequence[int], Split], Chart | None]
    requirement: str


def _draw_configuration_ranks(
    context: AppContext, reader: Bearer, study_ids: Sequence[int], split: Split
) -> Chart | None:
    """Which configuration is best in which study and under which evaluation setting."""
    compared = [
        (f"{study_id}: {board.spec.name}", setting, losses)
        for study_id, board in zip(
            study_ids, get_leaderboards_of_studies(context, reader, list(study_ids)), strict=True
        )
        for setting, losses in list(group_losses_by_setting_and_configuration(board.losses[split]).items())[
            :_MAX_SETTINGS
        ]
    ]
    settings = [setting for _, setting, _ in compared]
    labels = make_labels_unique(
        f"{name}, {distinguishing_setting_label(setting, settings)}" for name, setting, _ in compared
    )
    return configuration_ranks_chart_by_label(
        {label: losses for label, (_, _, losses) in zip(labels, compared, strict=True)}
    )


def _draw_learning_curves(context: AppContext, reader: Bearer, study_ids: Sequence[int], _: Split) -> Chart | None:
    """The training curves of all studies in one chart, a colour for each arm of each study."""
    boards = get_leaderboards_of_studies(context, reader, list(study_ids))
    curves, trials = [], 0
    for study_id, board in zip(study_ids, boards, strict=True):
        records = context.ledger.trial_lists.list_charted_learning_curves(study_id, _MAX_CURVES)
        point_labels = make_label_by_distinct_point(record.trial.point_json for record in records)
        curves += [
            TrialLearningCurve(
                f"{study_id}: {board.spec.name}, {record.trial.arm}",
                point_labels[record.trial.point_json],
                record.trial.seed,
                record.epochs,
            )
            for record in records
        ]
        study = context.ledger.study_lists.find_study_item(study_id)
        trials += len(records) if study is None else sum(study.trials.values())
    units = {board.spec.loss_description.unit for board in boards}
    return learning_curves_chart(curves, trials, LOSS, unit=units.pop() if len(units) == 1 else "")


_CHARTS = {
    "ranks": _ComparisonChart(
        _draw_configuration_ranks, "this needs two evaluation settings with the same configurations"
    ),
    "curves": _ComparisonChart(_draw_learning_curves, "nothing is trained yet"),
}


def _get_comparison_chart(name: str) -> _ComparisonChart:
    if name not in _CHARTS:
        raise ProblemException(404, "not-found", f"there is no chart {name!r}; there are {', '.join(_CHARTS)}")
    return _CHARTS[name]


def _draw_chart_by_name(
    name: str, context: AppContext, reader: Bearer, study: list[int] | None, split: str
) -> Chart | None:
    study_ids = list(dict.fromkeys(study or ()))[:MAX_STUDIES]
    return _get_comparison_chart(name).draw(context, reader, study_ids, Split(split))


@router.get("/{name}.json")
def comparison_plotly_json(
    name: str, context: ContextDep, reader: Reader, study: Studies = None, split: SplitChoice = "validation"
) -> JSONResponse:
    """A chart of the comparison as a Plotly figure."""
    return make_figure_or_reason_response(
        _draw_chart_by_name(name, context, reader, study, split), _get_comparison_chart(name).requirement
    )


@router.get("/{name}.csv")
def download_comparison_csv(
    name: str, context: ContextDep, reader: Reader, study: Studies = None, split: SplitChoice = "validation"
) -> Response:
    """The data of a chart of the comparison."""
    return make_chart_csv_response(
        _draw_chart_by_name(name, context, reader, study, split), name, _get_comparison_chart(name).requirement
    )
