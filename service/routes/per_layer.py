"""Per-layer configurations of a study's networks."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from bln_search.core.version import VERSION
from bln_search.ranking.per_layer import LayerResult
from bln_search.reports.per_layer import layer_lines, left_out_lines
from bln_search.storage.analyses import analysis_made_at
from service.context import Here
from service.etags import tagged
from service.problems import RefusedError
from service.security import Seen

router = APIRouter(prefix="/studies/{study_id:number}", tags=["results"])


class LayersOf(BaseModel):
    """An arm at one point, searched layer by layer."""

    words: list[str] = Field(description="what it says, in sentences: the verdict first")
    left_out: list[str] = Field(description="options without a value, with their reason, in sentences")
    result: LayerResult


class LayersOut(BaseModel):
    """Per-layer configurations, when they were worked out, and what they say. Losses in nats, accuracies fractions."""

    study_id: int
    made_at: datetime
    layers: list[LayersOf]


@router.get("/layers", operation_id="get_layers", response_model=LayersOut)
def layers(request: Request, study: Seen, context: Here) -> Response:
    """Which per-layer configurations are best, what of them is confirmed, what each switch does in each layer."""
    made_at = analysis_made_at(context.engine, study.id)
    kept = context.analyses.get(study.id)
    if made_at is None or kept is None:
        raise RefusedError(404, "not-analysed", "a worker works this out when the study is complete")
    if not kept.layers:
        reason = "" if kept.layers_reason is None else f": {kept.layers_reason}"
        raise RefusedError(404, "no-layers", f"no per-layer configuration of this study was searched{reason}")
    answer = LayersOut(
        study_id=study.id,
        made_at=made_at,
        layers=[LayersOf(words=layer_lines(one), left_out=left_out_lines(one), result=one) for one in kept.layers],
    )
    return tagged(request, answer.model_dump_json().encode(), f"{study.id}-{made_at.timestamp()}-{VERSION}-layers")
