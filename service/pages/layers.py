"""Page of the per-layer configurations of a study."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from bln_search.ranking.per_layer import PerLayerResult
from bln_search.reports.charts.per_layer import layer_switch_effects_heat_map
from bln_search.reports.per_layer_tables import (
    best_configurations_table,
    layer_switch_effects_table,
    selected_configurations_by_network_table,
    uniform_configurations_table,
)
from bln_search.reports.sentences.per_layer import arm_and_point_label, excluded_option_sentences, per_layer_sentences
from service.context import AppContext, ContextDep
from service.http.problems import ProblemException
from service.pages.rendering.chart_responses import DrawnChart, add_chart_routes
from service.pages.study_head import render_study_page
from service.security import ReadableStudy, StudyAccess

router = APIRouter(prefix="/studies/{study_id:number}", include_in_schema=False)
_TOP_ROWS, _MAX_ROWS = 10, 100
ResultChoice = Annotated[int, Query(ge=0, lt=1_000_000, description="index of the result: an arm at a point")]


@router.get("/layers")
def layers_page(request: Request, study: ReadableStudy, context: ContextDep, result: ResultChoice = 0) -> HTMLResponse:
    """The per-layer search of one arm at one point."""
    results = _get_layer_results(study, context)
    index = result if result < len(results) else 0
    selected = results[index]
    return render_study_page(
        request,
        "layers.html",
        context,
        study,
        charts=True,
        labels=[arm_and_point_label(searched) for searched in results],
        index=index,
        sentences=per_layer_sentences(selected),
        exclusions=excluded_option_sentences(selected),
        best=best_configurations_table(selected, _TOP_ROWS) if selected.rows or selected.uniform else None,
        more=best_configurations_table(selected, _MAX_ROWS) if len(selected.rows) > _TOP_ROWS else None,
        uniform=uniform_configurations_table(selected) if selected.uniform else None,
        networks=selected_configurations_by_network_table(selected) if selected.networks else None,
        effects=layer_switch_effects_table(selected) if selected.effects else None,
    )


def _draw_layer_switch_effects(study: ReadableStudy, context: ContextDep, result: ResultChoice = 0) -> DrawnChart:
    results = _get_layer_results(study, context)
    chart = layer_switch_effects_heat_map(results[result if result < len(results) else 0])
    return DrawnChart(
        chart, f"study-{study.id}-layers", "this needs a network whose per-layer configurations were searched"
    )


add_chart_routes(router, "/layers/switches", _draw_layer_switch_effects)


def _get_layer_results(study: StudyAccess, context: AppContext) -> tuple[PerLayerResult, ...]:
    """Return the results of the per-layer search. Raises ProblemException (404) if there are none."""
    analysis = context.analyses.find_or_load_current_analysis(study.id)
    if analysis is None or not analysis.layers:
        raise ProblemException(404, "no-layers", "there is no per-layer search of this study yet")
    return analysis.layers
