"""Route of a study's leaderboard, in every format."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from bln_search.core.enums import Split
from bln_search.ranking.analysis import Analysis
from bln_search.reports.export import loss_and_task_metric_fields, row_to_json_fields
from bln_search.reports.sentences.leaderboard import find_test_ranking_warning
from service.api_route import ApiRoute
from service.caching.leaderboard_cache import CachedLeaderboard
from service.context import AppContext, ContextDep
from service.http.etags import is_etag_in_if_none_match, make_etag_response
from service.http.pagination import (
    Cursor,
    Limit,
    decode_cursor_to_page_request,
    encode_cursor,
    make_invalid_cursor_problem,
)
from service.results.equal_rows import EqualRowsGroup, make_distinct_rows
from service.results.leaderboard_filters import filter_and_sort_rows
from service.results.leaderboard_response import MEDIA_TYPES, encode_leaderboard_as_text, make_leaderboard_etag
from service.routes.result_filters import (
    ArmFilter,
    BatchSizeFilter,
    ConditionFilter,
    DeterministicFilter,
    EstimateFilter,
    EvaluationStateFilter,
    LeaderboardSort,
    MethodFilter,
    ParameterFilters,
)
from service.schemas.results import LeaderboardPage
from service.security import ReadableStudy, StudyAccess

router = APIRouter(prefix="/studies/{study_id:number}", tags=["results"], route_class=ApiRoute)
_ANALYZED = ("csv", "latex", "markdown")
"""Formats with the groups of the analysis."""


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
            "rows then have `batch_sizes` in JSON and CSV, and all sizes in LaTeX and Markdown"
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
    page = decode_cursor_to_page_request(cursor, limit, sort, list_query, (int, int))
    start, results = (0, study.results) if page.after is None else (max(0, int(page.after[0])), int(page.after[1]))
    analyzed_at = context.ledger.analyses.find_current_analysis_time(study.id) if output in _ANALYZED else None
    query = [list_query, sort, output, (page.limit, start) if output == "json" else None, analyzed_at]
    etag = make_leaderboard_etag(study.id, study.revision, results, query)
    body = b"" if is_etag_in_if_none_match(request, etag) else context.responses.find_body(etag)
    if body is None:
        board = _get_leaderboard_of_page(context, study, on, results, is_first=page.after is None)
        filtered = filter_and_sort_rows(board, filters, sort)
        per_slot = board.spec.has_populations_per_slot
        rows = make_distinct_rows(filtered, board.leaderboard.ranked_on, collapse=collapse, per_slot=per_slot)
        if output == "json":
            following_cursor = None
            if start + limit < len(rows):
                following_cursor = encode_cursor((start + limit, board.results), sort, list_query)
            shown = [_row_to_json(group, collapse=collapse) for group in rows.list_groups(start, start + limit)]
            body = _encode_leaderboard_page(study, board, shown, following_cursor)
        else:
            analysis = _find_analysis(context, study, board) if output in _ANALYZED else None
            body = encode_leaderboard_as_text(board.leaderboard, rows, output, collapse=collapse, analysis=analysis)
        context.responses.put_unless_large(etag, body)
    return make_etag_response(request, body, etag, MEDIA_TYPES[output])


def _get_leaderboard_of_page(
    context: AppContext, study: StudyAccess, on: str | None, results: int, *, is_first: bool
) -> CachedLeaderboard:
    """Return the leaderboard; for a later page the version with as many results as the first page.

    Raises:
        ProblemException: 404 if that version is not cached any more.
    """
    split = None if on is None else Split(on)
    board = None if is_first else context.leaderboards.find_with_num_results(study.id, results, split)
    if board is None and results != study.results:
        raise make_invalid_cursor_problem(
            "the study has new results since the previous page; leave the cursor out to start again"
        )
    return board or context.leaderboards.get_or_compute(study.id, study.results, split)


def _find_analysis(context: AppContext, study: StudyAccess, board: CachedLeaderboard) -> Analysis | None:
    """Return the analysis of the study; None without one, and for rows that are ranked on another split."""
    is_of_the_study = board.leaderboard.ranked_on is board.spec.ranking.split
    return context.analyses.find_or_load_current_analysis(study.id) if is_of_the_study else None


def _row_to_json(group: EqualRowsGroup, *, collapse: bool) -> dict[str, Any]:
    row = row_to_json_fields(group.row)
    return {**row, "batch_sizes": list(group.batch_sizes)} if collapse else row


def _encode_leaderboard_page(
    study: StudyAccess, board: CachedLeaderboard, rows: list[dict[str, Any]], next_cursor: str | None
) -> bytes:
    leaderboard = board.leaderboard
    page = LeaderboardPage(
        study=study.name,
        id=study.id,
        state=study.state,
        ranked_on=leaderboard.ranked_on,
        conditions=list(leaderboard.condition_names),
        warning=find_test_ranking_warning(leaderboard),
        **loss_and_task_metric_fields(board.spec, leaderboard),
        rows=rows,
        next_cursor=next_cursor,
    )
    return page.model_dump_json().encode()
