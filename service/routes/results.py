"""Routes of a study's results: trials, evaluations, curves, leaderboard, checkpoints."""

from __future__ import annotations

import pathlib
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import FileResponse

from bln_search.core.blend import ESTIMATE_PATTERN
from bln_search.core.configuration import Method
from bln_search.core.enums import Split
from bln_search.core.states import EvaluationState
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.reports.export import flat_row
from bln_search.reports.sentences.leaderboard import leaderboard_warning
from service.api_route import ApiRoute
from service.caching.leaderboard_cache import CachedLeaderboard
from service.context import Context, ContextDep
from service.http.etags import etag_matches, etag_response
from service.http.pagination import Cursor, Limit, decode_cursor, encode_cursor, invalid_cursor_problem
from service.http.problems import MEDIA_TYPE as PROBLEM_MEDIA_TYPE
from service.http.problems import ProblemException
from service.results.checkpoint_files import verified_file
from service.results.equal_rows import RowGroup, distinct_rows
from service.results.leaderboard_filters import filter_rows
from service.results.leaderboard_response import MEDIA_TYPES, leaderboard_etag, text_body
from service.schemas.base import ListPage
from service.schemas.results import Curve, Epoch, EvaluationOut, LeaderboardPage
from service.security import ReadableStudy, Reader, StudyAccess
from service.serializers import serialize_evaluation

router = APIRouter(prefix="/studies/{study_id:number}", tags=["results"], route_class=ApiRoute)
ArmFilter = Annotated[str | None, Query(max_length=32, pattern="^[a-z0-9_-]*$", description="label of an arm")]
SeedFilter = Annotated[int | None, Query(ge=0, lt=2**32, description="seed of the trial")]
MethodFilter = Annotated[Method | None, Query(description="normalization of the arm")]
BatchSizeFilter = Annotated[int | None, Query(ge=1, le=1_000_000, description="mini-batch size at inference")]
EstimateFilter = Annotated[
    str | None,
    Query(
        max_length=64,
        pattern=ESTIMATE_PATTERN,
        description="how population statistics were estimated; with the weight of a blend as in frozen@0.1",
    ),
]
EvaluationStateFilter = Annotated[EvaluationState | None, Query(description="measured, undefined or diverged")]
DeterministicFilter = Annotated[
    bool | None,
    Query(description="true: configurations whose outputs are independent of the mini-batch; false: the others"),
]
ConditionFilter = Annotated[
    str | None,
    Query(
        pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
        description="rows that were measured under this condition of the study, or under all: `mean`, `worst`",
    ),
]
ParameterFilters = Annotated[
    list[Annotated[str, Query(max_length=200)]] | None,
    Query(
        max_length=20,
        description="requirements on parameters of the search space: `NAME=VALUE`, `NAME<=NUMBER` or `NAME>=NUMBER`",
    ),
]
PositionSort = Annotated[
    str, Query(pattern="^-?position$", description="position in the study; a minus reverses the order")
]
LeaderboardSort = Annotated[
    str,
    Query(
        pattern="^-?(rank|(validation|test)_(loss|accuracy)(:[A-Za-z0-9][A-Za-z0-9_-]{0,63})?)$",
        description=(
            "rank, or a mean, under a condition as in test_loss:fog-3, or over conditions as in test_loss:worst; "
            "a minus reverses the order; rows without a value are last"
        ),
    ),
]


@router.get("/evaluations", operation_id="list_evaluations")
def list_evaluations(
    study: ReadableStudy,
    context: ContextDep,
    arm: ArmFilter = None,
    seed: SeedFilter = None,
    configuration: Annotated[str | None, Query(pattern="^[MTFB-]{4}$", description="four letters, like TTFF")] = None,
    estimate: EstimateFilter = None,
    batch_size: BatchSizeFilter = None,
    split: Annotated[Split | None, Query(description="only this split")] = None,
    condition: Annotated[
        str | None,
        Query(
            pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
            description="only this condition of the study; `clean`, or that which ranks submitted results, without one",
        ),
    ] = None,
    state: EvaluationStateFilter = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ListPage[EvaluationOut]:
    """Every trained network under every configuration and condition, in the order they were stored."""
    filters = {
        "configuration": configuration,
        "estimate": estimate,
        "batch_size": batch_size,
        "split": split,
        "condition": None if condition is None else _stored_condition(context, study, condition),
        "state": state,
    }
    trial_filters = {"arm": arm, "seed": seed}
    list_query = {"list": "evaluations", "study": study.id, **filters, **trial_filters}
    page = decode_cursor(cursor, limit, "id", list_query)
    records = context.ledger.listing.list_evaluations(study.id, page, filters, trial_filters)
    following_cursor = encode_cursor((records[limit - 1].id,), "id", list_query) if len(records) > limit else None
    return ListPage(items=[serialize_evaluation(record) for record in records[:limit]], next_cursor=following_cursor)


def _stored_condition(context: Context, study: StudyAccess, condition: str) -> str:
    """The condition as evaluations have it: empty for the one that ranks."""
    return "" if condition == context.ledger.studies.get(study.id).spec.ranking_condition else condition


@router.get("/curves", operation_id="list_curves")
def list_curves(
    study: ReadableStudy,
    context: ContextDep,
    arm: ArmFilter = None,
    seed: SeedFilter = None,
    sort: PositionSort = "position",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ListPage[Curve]:
    """Loss and accuracy of training and validation by epoch, a curve for each trial."""
    filters = {"arm": arm, "seed": seed}
    list_query = {"list": "curves", "study": study.id, **filters}
    page = decode_cursor(cursor, limit, sort, list_query, (int, int))
    curve_records = context.ledger.listing.list_curves(study.id, page, filters)
    items = [
        Curve(
            trial_id=curve.trial.id,
            arm=curve.trial.arm,
            seed=curve.trial.seed,
            parameters=curve.trial.parameters,
            epochs=[Epoch.model_validate(epoch) for epoch in curve.epochs],
        )
        for curve in curve_records[:limit]
    ]
    last = curve_records[limit - 1].trial if len(curve_records) > limit else None
    following_cursor = None if last is None else encode_cursor((last.position, last.id), sort, list_query)
    return ListPage(items=items, next_cursor=following_cursor)


@router.get(
    "/leaderboard",
    operation_id="get_leaderboard",
    response_model=LeaderboardPage,
    responses={
        200: {
            "content": {
                name: {"schema": {"type": "string"}} for name in ("text/csv", "text/markdown", "application/x-latex")
            }
        }
    },
)
def get_leaderboard(
    request: Request,
    study: ReadableStudy,
    context: ContextDep,
    method: MethodFilter = None,
    arm: ArmFilter = None,
    batch_size: BatchSizeFilter = None,
    estimate: EstimateFilter = None,
    state: EvaluationStateFilter = None,
    deterministic: DeterministicFilter = None,
    condition: ConditionFilter = None,
    parameter: ParameterFilters = None,
    collapse: Annotated[
        bool,
        Query(
            description="one row for the mini-batch sizes of a configuration that is independent of the mini-batch; "
            "rows then have `batch_sizes` in JSON"
        ),
    ] = False,
    on: Annotated[
        Literal["validation", "test"] | None, Query(description="split that decides the order; by default the study's")
    ] = None,
    sort: LeaderboardSort = "rank",
    output: Annotated[
        Literal["json", "csv", "latex", "markdown"],
        Query(alias="format", description="formats other than json return all rows at once"),
    ] = "json",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """The leaderboard of configurations. Ranks refer to the whole leaderboard, whatever the filter."""
    filters = {
        "method": method,
        "arm": arm,
        "batch_size": batch_size,
        "estimate": estimate,
        "state": state,
        "deterministic": deterministic,
        "condition": condition,
        "parameter": parameter,
    }
    list_query = {"list": "leaderboard", "study": study.id, "on": on, "collapse": collapse, **filters}
    page = decode_cursor(cursor, limit, sort, list_query, (int, int))
    start, results = (0, study.results) if page.after is None else (max(0, int(page.after[0])), int(page.after[1]))
    query = [list_query, sort, output, (page.limit, start) if output == "json" else None]
    etag = leaderboard_etag(study.id, study.revision, results, query)
    body = b"" if etag_matches(request, etag) else context.responses.get(etag)
    if body is None:
        board = _find_leaderboard(context, study, on, results, is_first=page.after is None)
        filtered = filter_rows(board, filters, sort)
        rows = distinct_rows(filtered, board.leaderboard.ranked_on, collapse=collapse)
        if output == "json":
            following_cursor = None
            if start + limit < len(rows):
                following_cursor = encode_cursor((start + limit, board.results), sort, list_query)
            shown = [_json_row(group, collapse=collapse) for group in rows.groups(start, start + limit)]
            body = _json_page(study, board.leaderboard, shown, following_cursor)
        else:
            body = text_body(board.leaderboard, rows.rows, output)
        context.responses.put(etag, body)
    return etag_response(request, body, etag, MEDIA_TYPES[output])


def _find_leaderboard(
    context: Context, study: StudyAccess, on: str | None, results: int, *, is_first: bool
) -> CachedLeaderboard:
    """Return the leaderboard; for a later page the version with as many results as the first page.

    Raises:
        ProblemException: 404 if that version is not cached any more.
    """
    split = None if on is None else Split(on)
    board = None if is_first else context.leaderboards.find_by_num_results(study.id, results, split)
    if board is None and results != study.results:
        raise invalid_cursor_problem(
            "the study has new results since the previous page; leave the cursor out to start again"
        )
    return board or context.leaderboards.get(study.id, study.results, split)


def _json_row(group: RowGroup, *, collapse: bool) -> dict[str, Any]:
    row = flat_row(group.row)
    return {**row, "batch_sizes": list(group.batch_sizes)} if collapse else row


def _json_page(
    study: StudyAccess, leaderboard: Leaderboard, rows: list[dict[str, Any]], next_cursor: str | None
) -> bytes:
    page = LeaderboardPage(
        study=study.name,
        id=study.id,
        state=study.state,
        ranked_on=leaderboard.ranked_on,
        conditions=list(leaderboard.conditions),
        warning=leaderboard_warning(leaderboard),
        rows=rows,
        next_cursor=next_cursor,
    )
    return page.model_dump_json().encode()


@router.get(
    "/checkpoints/{checkpoint_id:number}",
    operation_id="get_checkpoint",
    response_class=FileResponse,
    responses={
        200: {
            "description": "the weights as safetensors",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        },
        502: {
            "description": "the file is damaged",
            "content": {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
        },
    },
)
def get_checkpoint(
    study: ReadableStudy,
    checkpoint_id: Annotated[int, Path(description="`checkpoint.id` of a trial")],
    context: ContextDep,
    _reader: Reader,
) -> Response:
    """The checkpoint as a safetensors file, with the population statistics."""
    record = context.ledger.checkpoints.find(study.id, checkpoint_id) if 0 < checkpoint_id < 2**31 else None
    if record is None:
        raise ProblemException(404, "not-found", f"study {study.id} has no checkpoint {checkpoint_id}")
    try:
        file = verified_file(context.settings.checkpoint_store, context.ledger, study.id, record)
    except FileNotFoundError:
        freed_at = context.ledger.checkpoints.find_freed_at(study.id, record.file)
        reason = "is missing in the checkpoint store"
        if freed_at is not None:
            reason = f"was removed on {freed_at:%Y-%m-%d} to free disk space; its results are kept"
        raise ProblemException(404, "file-gone", f"the file {record.file} {reason}") from None
    headers = {"ETag": f'"{record.sha256}"'}
    if isinstance(file, pathlib.Path):
        return FileResponse(file, filename=record.file, media_type="application/octet-stream", headers=headers)
    headers["Content-Disposition"] = f'attachment; filename="{record.file}"'
    return Response(file, media_type="application/octet-stream", headers=headers)
