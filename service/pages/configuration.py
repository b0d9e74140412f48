"""Pages of inference configurations: one configuration in a study, and an overview of all."""

from __future__ import annotations

import statistics
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.configuration_explanation import explain_configuration
from bln_search.core.method import Method
from bln_search.core.states import EvaluationState
from bln_search.ranking.grouping import group_losses_by_setting_and_configuration
from bln_search.reports.charts.chart import unique_setting_labels
from bln_search.reports.leaderboard_columns import LeaderboardView
from service.caching.leaderboard_cache import CachedLeaderboard
from service.context import ContextDep
from service.http.problems import ProblemException
from service.http.root_path import ROOT_PATH
from service.pages.exports import exports_template_variables_of_row
from service.pages.leaderboard.query import EstimateChoice
from service.pages.leaderboard.rows import decimals_by_metric, make_row_with_confidence_intervals
from service.pages.rendering.templates import make_viewer_variables, render_page_response
from service.pages.uses import list_code_examples
from service.routes.result_filters import ArmFilter
from service.security import ReadableStudy, Reader, is_sent_over_tls
from service.serializers import serialize_configuration

router = APIRouter(include_in_schema=False)
_MAX_WINS = 20
_MAX_OTHER_ROWS = 50
_MAX_CHECKPOINTS = 20


@router.get("/studies/{study_id:number}/configurations/{code}")
def configuration_page(
    request: Request,
    study: ReadableStudy,
    code: str,
    context: ContextDep,
    arm: ArmFilter = None,
    point: Annotated[str, Query(max_length=5000)] = "",
    estimate: EstimateChoice = "",
    batch_size: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
) -> HTMLResponse:
    """A configuration's rank in a study, its explanation, formula and code."""
    try:
        selected = InferenceConfiguration(code)
    except ValueError as error:
        raise ProblemException(404, "not-found", str(error)) from None
    board = context.leaderboards.get_or_compute(study.id, study.results, allow_stale=study.is_queued_or_running)
    rows = [row for row in board.leaderboard.rows if row.configuration == selected]
    matching = [
        row
        for row in rows
        if (arm in (None, "", row.arm))
        and (point in ("", row.point))
        and (not estimate or row.estimate is None or row.estimate == estimate)
        and (batch_size in (None, row.batch_size))
    ]
    if not matching:
        raise ProblemException(
            404, "not-found", f"study {study.id} has no row with the configuration {code} and these values"
        )
    first = matching[0]
    view = LeaderboardView.of_analysis(board.leaderboard, context.analyses.find_or_load_current_analysis(study.id))
    others = [make_row_with_confidence_intervals(row, view) for row in rows if row is not first][:_MAX_OTHER_ROWS]
    method = next(spec.method for spec in board.spec.arms if spec.label == first.arm)
    return render_page_response(
        request,
        "configuration.html",
        viewer=make_viewer_variables(study.bearer),
        study={"id": study.id, "name": study.name},
        view=serialize_configuration(selected, method, per_slot=board.spec.has_populations_per_slot),
        explanation=explain_configuration(selected, first.estimate),
        method=method,
        display_row=make_row_with_confidence_intervals(first, view),
        parameters=first.parameters,
        others=others,
        decimals=decimals_by_metric(others, board.leaderboard),
        ranked_on=board.leaderboard.ranked_on,
        wins=_list_settings_with_lowest_loss(board, selected),
        exportable=board.spec.external is None and first.state is EvaluationState.MEASURED,
        **exports_template_variables_of_row(context, study, first),
        can_fine_tune=board.spec.external is None
        and not (selected.uses_blend or selected.uses_optional_source_of(method)),
        uses=list_code_examples(_find_service_address(request), study.id, board.spec, first),
        checkpoints=context.ledger.checkpoints.list_trials_by_validation_loss(study.id, first.arm, first.point)[
            :_MAX_CHECKPOINTS
        ],
    )


def _find_service_address(request: Request) -> str:
    """Return the address of the service as the browser reaches it, without a slash at its end."""
    return f"http{'s' if is_sent_over_tls(request) else ''}://{request.url.netloc}{ROOT_PATH.get()}"


def _list_settings_with_lowest_loss(board: CachedLeaderboard, configuration: InferenceConfiguration) -> list[str]:
    """Return the evaluation settings under which the configuration has the lowest mean loss."""
    losses_by_evaluation_setting = group_losses_by_setting_and_configuration(board.losses[board.leaderboard.ranked_on])
    labels = unique_setting_labels(losses_by_evaluation_setting)
    won = []
    for setting, losses in losses_by_evaluation_setting.items():
        means = {code: statistics.fmean(values.values()) for code, values in losses.items()}
        if configuration in means and means[configuration] == min(means.values()):
            won.append(labels[setting])
    return won[:_MAX_WINS]


@router.get("/configurations")
def configurations_page(
    request: Request, reader: Reader, method: Annotated[Method, Query()] = Method.BLN
) -> HTMLResponse:
    """All configurations of a method, explained."""
    return render_page_response(
        request,
        "configurations.html",
        viewer=make_viewer_variables(reader),
        method=method,
        methods=list(Method),
        configurations=[(code, serialize_configuration(code, method)) for code in all_configurations(method)],
    )
