"""What a study's results say: comparison, recommendation, probes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from bln_search.core.enums import PopulationEstimate, ProbeKind, Split
from bln_search.core.version import VERSION
from bln_search.ranking.analysis import Analysis
from bln_search.reports.comparison import analysis_lines
from bln_search.storage.analyses import analysis_made_at
from bln_search.storage.probes import probe_page
from service.context import Here
from service.etags import has_it, tagged
from service.paging import Cursor, Limit, cursor_after, read_page
from service.problems import RefusedError
from service.routes.results import ArmFilter
from service.schemas import ListPage
from service.security import Seen

router = APIRouter(prefix="/studies/{study_id:number}", tags=["results"])


class AnalysisOut(BaseModel):
    """An analysis, when it was made, and what it says in sentences."""

    study_id: int
    made_at: datetime
    words: list[str]
    analysis: Analysis


class ProbeOut(BaseModel):
    """A network measured beside the leaderboard; epoch 0: the checkpoint itself. Loss in nats, accuracy a fraction."""

    id: int
    arm: str
    seed: int
    kind: ProbeKind
    epoch: int
    configuration: str
    estimate: PopulationEstimate | None
    batch_size: int
    split: Split
    n: int
    loss: float
    accuracy: float
    deviation: float | None
    flips: float | None


@router.get("/analysis", operation_id="get_analysis", response_model=AnalysisOut)
def analysis(request: Request, study: Seen, context: Here) -> Response:
    """Which rows can be told apart, which one to use, what choosing it cost: once the study is complete."""
    made_at = analysis_made_at(context.engine, study.id)
    etag = f"{study.id}-{made_at and made_at.timestamp()}-{VERSION}"
    if made_at is not None and has_it(request, etag):
        return tagged(request, b"", etag)
    kept = context.analyses.get(study.id)
    if made_at is None or kept is None:
        detail = "a worker works this out when the study is complete: ask again in a second or so"
        raise RefusedError(404, "not-analysed", detail, headers={"Retry-After": "1"})
    answer = AnalysisOut(study_id=study.id, made_at=made_at, words=analysis_lines(kept, alone=True), analysis=kept)
    return tagged(request, answer.model_dump_json().encode(), etag)


@router.get("/probes", operation_id="list_probes")
def probes(
    study: Seen,
    context: Here,
    kind: Annotated[ProbeKind | None, Query(description="only this kind")] = None,
    arm: ArmFilter = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ListPage[ProbeOut]:
    """Networks at other inference mini-batch sizes, after other epochs, in other company."""
    about = {"list": "probes", "study": study.id, "kind": kind, "arm": arm}
    page = read_page(cursor, limit, "id", about)
    rows = probe_page(context.engine, study.id, 0 if page.after is None else int(page.after[0]), limit + 1, kind, arm)
    items = [
        ProbeOut(
            id=number,
            arm=one.arm,
            seed=one.seed,
            kind=one.probe.kind,
            epoch=one.probe.epoch,
            configuration=str(one.probe.key.configuration),
            estimate=one.probe.key.estimate,
            batch_size=one.probe.key.batch_size,
            split=one.probe.key.split,
            n=one.probe.n,
            loss=one.probe.loss,
            accuracy=one.probe.accuracy,
            deviation=one.probe.deviation,
            flips=one.probe.flips,
        )
        for number, one in rows[:limit]
    ]
    following = cursor_after((items[-1].id,), "id", about) if len(rows) > limit else None
    return ListPage(items=items, next_cursor=following)
