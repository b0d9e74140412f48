"""Page of the streams of a study: arms of adaptation as a table, and over time."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from bln_search.ranking.stream_results import StudyStreams
from bln_search.reports.charts.streams import MEASURES, stream_chart
from bln_search.reports.stream_table import stream_sentences, stream_table
from bln_search.specs.study import StudySpec
from service.context import AppContext, ContextDep
from service.http.problems import ProblemException
from service.pages.rendering.chart_responses import DrawnChart, add_chart_routes
from service.pages.study_head import get_study_item, render_study_page
from service.security import ReadableStudy, StudyAccess

router = APIRouter(prefix="/studies/{study_id:number}", include_in_schema=False)


@router.get("/streams")
def streams_page(request: Request, study: ReadableStudy, context: ContextDep) -> HTMLResponse:
    """The ranked arms of adaptation, and their errors and losses over the stream."""
    streams = _get_streams(study, context)
    spec = StudySpec.model_validate_json(get_study_item(context, study.id).spec_json).stream
    assert spec is not None  # a study with ranked streams has them
    return render_study_page(
        request,
        "streams.html",
        context,
        study,
        charts=True,
        table=stream_table(streams, "Arms of adaptation, the lowest error first"),
        sentences=stream_sentences(streams, spec),
        measures=MEASURES,
    )


def _get_known_measure(name: str) -> str:
    if name not in MEASURES:
        raise ProblemException(404, "not-found", f"there is no chart {name!r}; there are {', '.join(MEASURES)}")
    return name


def _draw_streams(
    study: ReadableStudy, name: Annotated[str, Depends(_get_known_measure)], context: ContextDep
) -> DrawnChart:
    chart = stream_chart(_get_streams(study, context), MEASURES[name])
    return DrawnChart(chart, f"study-{study.id}-streams", "this needs networks that adapted to streams")


add_chart_routes(router, "/streams/{name}", _draw_streams)


def _get_streams(study: StudyAccess, context: AppContext) -> StudyStreams:
    """Return the arms. Raises ProblemException (404) if there are none."""
    analysis = context.analyses.find_or_load_current_analysis(study.id)
    if analysis is None or analysis.streams is None or not analysis.streams.rows:
        raise ProblemException(404, "no-streams", "no arms of adaptation of this study are ranked yet")
    return analysis.streams
