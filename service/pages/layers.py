"""Per-layer configurations: what was found, what of it is confirmed, and what each switch does where."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from bln_search.ranking.per_layer import LayerResult
from bln_search.reports.charts import Chart
from bln_search.reports.charts.per_layer import layer_switches_chart
from bln_search.reports.page.per_layer import effects_table, networks_table, rows_table, uniform_table
from bln_search.reports.per_layer import layer_lines, left_out_lines, result_label
from bln_search.storage.browse import find_study_line
from service.context import Context, Here
from service.pages.charts import drawn
from service.pages.render import page
from service.pages.viewer import visitor_of
from service.problems import RefusedError
from service.security import OwnStudy, Seen

router = APIRouter(prefix="/studies/{study_id:number}", include_in_schema=False)
_ROWS, _MORE = 10, 100
_NEEDED = "this needs a network that is searched"
ResultChoice = Annotated[int, Query(ge=0, lt=1_000_000, description="which of the arms and points")]


@router.get("/layers")
def layers(request: Request, study: Seen, context: Here, result: ResultChoice = 0) -> HTMLResponse:
    """One arm and point of a study, searched layer by layer."""
    found = _layers(study, context)
    place = result if result < len(found) else 0
    shown = found[place]
    line = find_study_line(context.engine, study.id)
    if line is None:
        raise RefusedError(404, "not-found", f"there is no study {study.id}")
    return page(
        request,
        "layers.html",
        charts=True,
        visitor=visitor_of(study.bearer),
        study={"id": study.id, "name": line[0].name, "title": line[0].title},
        labels=[result_label(one) for one in found],
        place=place,
        shown=shown,
        words=layer_lines(shown),
        left_out=left_out_lines(shown),
        best=rows_table(shown, _ROWS) if shown.rows or shown.uniform else None,
        more=rows_table(shown, _MORE) if len(shown.rows) > _ROWS else None,
        uniform=uniform_table(shown) if shown.uniform else None,
        networks=networks_table(shown) if shown.networks else None,
        effects=effects_table(shown) if shown.effects else None,
    )


@router.get("/layers/switches.json")
def switches(study: Seen, context: Here, result: ResultChoice = 0) -> JSONResponse:
    """What each switch does in each layer, for the script that draws it."""
    return drawn(_chart(study, context, result), _NEEDED)


@router.get("/layers/switches.csv")
def switches_data(study: Seen, context: Here, result: ResultChoice = 0) -> Response:
    """The same as a table."""
    chart = _chart(study, context, result)
    if chart is None:
        raise RefusedError(404, "no-data", f"there is nothing to show yet: {_NEEDED}")
    headers = {"Content-Disposition": f'attachment; filename="study-{study.id}-layers.csv"'}
    return Response(chart.csv, media_type="text/csv; charset=utf-8", headers=headers)


def _chart(study: OwnStudy, context: Context, place: int) -> Chart | None:
    found = _layers(study, context)
    return layer_switches_chart(found[place if place < len(found) else 0])


def _layers(study: OwnStudy, context: Context) -> tuple[LayerResult, ...]:
    """What was searched. Raises RefusedError (404) where nothing was, or is not worked out."""
    analysis = context.analyses.get(study.id)
    if analysis is None or not analysis.layers:
        raise RefusedError(404, "no-layers", "no per-layer configuration of this study is worked out")
    return analysis.layers
