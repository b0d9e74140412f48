"""Routes of a study's analysis, its per-layer configurations, its streams, and its probes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from bln_search.core.enums import ProbeKind, Split
from bln_search.core.version import VERSION
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.per_layer import PerLayerResult
from bln_search.ranking.stream_results import StudyStreams
from bln_search.reports.sentences.analysis import analysis_sentences
from bln_search.reports.sentences.per_layer import excluded_option_sentences, per_layer_sentences
from bln_search.reports.stream_table import stream_sentences
from service.api_route import ApiRoute
from service.context import ContextDep
from service.http.etags import is_etag_in_if_none_match, make_etag_response
from service.http.pagination import Cursor, Limit, cut_page, decode_cursor_to_page_request
from service.http.problems import ProblemException
from service.routes.result_filters import ArmFilter
from service.schemas.base import ListPage, project
from service.security import ReadableStudy, make_missing_analysis_problem

router = APIRouter(prefix="/studies/{study_id:number}", tags=["results"], route_class=ApiRoute)


class AnalysisOut(BaseModel):
    """An analysis, the time it was computed, and its conclusions in sentences."""

    study_id: int
    made_at: datetime
    sentences: list[str]
    analysis: Analysis


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


class StreamsOut(BaseModel):
    """Arms of adaptation over the streams of a study, and the time they were analysed. Errors are fractions."""

    study_id: int
    made_at: datetime
    sentences: list[str] = Field(description="what the streams were, what is recommended, and what collapsed")
    streams: StudyStreams


class ProbeOut(BaseModel):
    """A result outside the leaderboard, with the loss of the study's task.

    epoch: 0 for the checkpoint; accuracy: a fraction, null for a task without; deviation: of an example's loss; flips:
    of predicted classes, null for a task without classes.
    """

    id: int
    arm: str
    seed: int
    kind: ProbeKind
    epoch: int
    configuration: str
    estimate: str | None = Field(description="population estimate, with the weight of a blend as in frozen@0.1")
    batch_size: int
    split: Split
    n: int
    loss: float
    accuracy: float | None
    deviation: float | None
    flips: float | None


@router.get("/analysis", operation_id="get_analysis", response_model=AnalysisOut)
def get_analysis(request: Request, study: ReadableStudy, context: ContextDep) -> Response:
    """Which rows differ significantly, which one is recommended, and its selection bias. Complete studies only."""
    made_at = context.ledger.analyses.find_current_analysis_time(study.id)
    etag = f"{study.id}-{made_at and made_at.timestamp()}-{VERSION}"
    if made_at is not None and is_etag_in_if_none_match(request, etag):
        return make_etag_response(request, b"", etag)
    cached = context.analyses.find_or_load_current_analysis(study.id)
    if made_at is None or cached is None:
        raise make_missing_analysis_problem(study)
    response = AnalysisOut(
        study_id=study.id, made_at=made_at, sentences=analysis_sentences(cached, standalone=True), analysis=cached
    )
    return make_etag_response(request, response.model_dump_json().encode(), etag)


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


@router.get("/streams", operation_id="get_streams", response_model=StreamsOut)
def get_streams(request: Request, study: ReadableStudy, context: ContextDep) -> Response:
    """The ranked arms of adaptation: errors, calibration, cost, and how they change over the stream."""
    made_at = context.ledger.analyses.find_current_analysis_time(study.id)
    analysis = context.analyses.find_or_load_current_analysis(study.id)
    if made_at is None or analysis is None:
        raise make_missing_analysis_problem(study)
    spec = context.ledger.studies.get(study.id).spec.stream
    if spec is None or analysis.streams is None or not analysis.streams.rows:
        reason = "it has no section `stream`" if analysis.streams is None else analysis.streams.reason
        raise ProblemException(404, "no-streams", f"this study has no ranked arms of adaptation: {reason}")
    sentences = stream_sentences(analysis.streams, spec)
    response = StreamsOut(study_id=study.id, made_at=made_at, sentences=sentences, streams=analysis.streams)
    return make_etag_response(
        request, response.model_dump_json().encode(), f"{study.id}-{made_at.timestamp()}-{VERSION}-streams"
    )


@router.get("/probes", operation_id="list_probes")
def list_probes(
    study: ReadableStudy,
    context: ContextDep,
    kind: Annotated[ProbeKind | None, Query(description="only this kind")] = None,
    arm: ArmFilter = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ListPage[ProbeOut]:
    """Results with other inference batch sizes, after other epochs, and with other batch compositions."""
    list_query = {"list": "probes", "study": study.id, "kind": kind, "arm": arm}
    page = decode_cursor_to_page_request(cursor, limit, "id", list_query)
    after = 0 if page.after is None else int(page.after[0])
    rows = context.ledger.probes.list_probe_page(study.id, after, limit + 1, kind, arm)
    rows, next_cursor = cut_page(rows, page, list_query, lambda row: (row[0],))
    items = [
        project(
            ProbeOut,
            record,
            record.probe,
            record.probe.key,
            id=number,
            configuration=str(record.probe.key.configuration),
        )
        for number, record in rows
    ]
    return ListPage(items=items, next_cursor=next_cursor)
