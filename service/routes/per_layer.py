"""Route of the per-layer configurations of a study."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from bln_search.core.version import VERSION
from bln_search.ranking.per_layer import PerLayerResult
from bln_search.reports.sentences.per_layer import excluded_option_sentences, per_layer_sentences
from service.api_route import ApiRoute
from service.context import ContextDep
from service.http.etags import make_etag_response
from service.http.problems import ProblemException
from service.security import ReadableStudy, make_missing_analysis_problem

router = APIRouter(prefix="/studies/{study_id:number}", tags=["results"], route_class=ApiRoute)


class LayerSearchOut(BaseModel):
    """The per-layer search of an arm at one point."""

    sentences: list[str] = Field(description="conclusions in sentences, the verdict first")
    excluded_options: list[str] = Field(description="excluded options and their reasons, in sentences")
    result: PerLayerResult


class PerLayerOut(BaseModel):
    """Per-layer configurations and the time they were analysed.

    `loss` of a result names the loss and its unit; accuracies are fractions, null for a task without.
    """

    study_id: int
    made_at: datetime
    layers: list[LayerSearchOut]


@router.get("/layers", operation_id="get_layers", response_model=PerLayerOut)
def get_layers(request: Request, study: ReadableStudy, context: ContextDep) -> Response:
    """The best per-layer configurations, confirmed differences, and the effect of each switch in each layer."""
    made_at = context.ledger.analyses.find_current_analysis_time(study.id)
    analysis = context.analyses.find_or_load_current_analysis(study.id)
    if made_at is None or analysis is None:
        raise make_missing_analysis_problem(study)
    if not analysis.layers:
        reason = "" if analysis.layers_reason is None else f": {analysis.layers_reason}"
        raise ProblemException(404, "no-layers", f"no per-layer configuration of this study was searched{reason}")
    response = PerLayerOut(
        study_id=study.id,
        made_at=made_at,
        layers=[
            LayerSearchOut(
                sentences=per_layer_sentences(result), excluded_options=excluded_option_sentences(result), result=result
            )
            for result in analysis.layers
        ],
    )
    return make_etag_response(
        request, response.model_dump_json().encode(), f"{study.id}-{made_at.timestamp()}-{VERSION}-layers"
    )
