"""Page of the per-layer configurations of a study."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from bln_search.ranking.per_layer import PerLayerResult
from bln_search.reports.charts import Chart
from bln_search.reports.charts.per_layer import layer_switches_chart
from bln_search.reports.page.per_layer import layer_effects_table, networks_table, rows_table, uniform_table
from bln_search.reports.sentences.per_layer import excluded_option_sentences, per_layer_sentences, result_label
from service.context import Context, ContextDep
from service.http.problems import ProblemException
from service.pages.rendering.chart_responses import csv_response, figure_response
from service.pages.rendering.templates import render_page
from service.pages.rendering.viewer import viewer_context
from service.security import ReadableStudy, StudyAccess

router = APIRouter(prefix="/studies/{study_id:number}", include_in_schema=False)
_TOP_ROWS, _MAX_ROWS = 10, 100
_REQUIREMENT = "this needs a network whose per-layer configurations were searched"
ResultChoice = Annotated[int, Query(ge=0, lt=1_000_000, description="index of the result: an arm at a point")]


@router.get("/layers")
def layers_page(request: Request, study: ReadableStudy, context: ContextDep, result: ResultChoice = 0) -> HTMLResponse:
    """The per-layer search of one arm at one point."""
    results = _layer_results(study, context)
    index = result if result < len(results) else 0
    selected = results[index]
    listed = context.ledger.listing.find_study(study.id)
    if listed is None:
        raise ProblemException(404, "not-found", f"there is no study {study.id}")
    return render_page(
        request,
        "layers.html",
        charts=True,
        viewer=viewer_context(study.bearer),
        study={"id": study.id, "name": listed.name, "title": listed.title},
        labels=[result_label(searched) for searched in results],
        index=index,
        sentences=per_layer_sentences(selected),
        exclusions=excluded_option_sentences(selected),
        best=rows_table(selected, _TOP_ROWS) if selected.rows or selected.uniform else None,
        more=rows_table(selected, _MAX_ROWS) if len(selected.rows) > _TOP_ROWS else None,
        uniform=uniform_table(selected) if selected.uniform else None,
        networks=networks_table(selected) if selected.networks else None,
        effects=layer_effects_table(selected) if selected.effects else None,
    )


@router.get("/layers/switches.json")
def layer_switches_plotly_json(study: ReadableStudy, context: ContextDep, result: ResultChoice = 0) -> JSONResponse:
    """The effect of each switch in each layer, as a Plotly figure."""
    return figure_response(_switches_chart(study, context, result), _REQUIREMENT)


@router.get("/layers/switches.csv")
def download_switches_csv(study: ReadableStudy, context: ContextDep, result: ResultChoice = 0) -> Response:
    """The same as CSV."""
    chart = _switches_chart(study, context, result)
    return csv_response(chart, f"study-{study.id}-layers", _REQUIREMENT)


def _switches_chart(study: StudyAccess, context: Context, index: int) -> Chart | None:
    results = _layer_results(study, context)
    return layer_switches_chart(results[index if index < len(results) else 0])


def _layer_results(study: StudyAccess, context: Context) -> tuple[PerLayerResult, ...]:
    """Return the results of the per-layer search. Raises ProblemException (404) if there are none."""
    analysis = context.analyses.get(study.id)
    if analysis is None or not analysis.layers:
        raise ProblemException(404, "no-layers", "there is no per-layer search of this study yet")
    return analysis.layers
