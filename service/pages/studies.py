"""Page with the list of studies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import HTMLResponse

from bln_search.core.states import StudyState
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.formatting import confidence_interval_over_seeds
from bln_search.reports.sentences.significance import short_verdict_text
from bln_search.storage.pagination import PageRequest
from service.caching.leaderboard_cache import CachedLeaderboard
from service.context import ContextDep
from service.http.etags import is_etag_in_if_none_match, make_etag_response
from service.pages.answer import find_recommended_row
from service.pages.rendering.templates import make_viewer_variables, render_fragment_response, render_page_response
from service.pages.study_list import PAGE_SIZES, SORT_LABELS, FilteredStudyList, StudyListQuery
from service.security import Reader, visible_owner_or_none_for_admin

router = APIRouter(include_in_schema=False)
_MAX_ANSWERS = 25
"""Largest number of studies of one request for their recommended configurations."""

_MAX_ID = 2**31


@dataclass(frozen=True)
class ListedRecommendation:
    """The recommended configuration of a study, or its leading one before the study is analyzed.

    Attributes:
        study_id: The study.
        row: The row; None before the first result.
        loss: Its mean loss on the split that ranks.
        verdict: What is known about the recommended row, or what would decide; None for a leading row.
        later: Whether a worker is still analyzing the complete study.
    """

    study_id: int
    row: LeaderboardRow | None = None
    loss: ConfidenceInterval | None = None
    verdict: str | None = None
    later: bool = False


@router.get("/studies")
def studies_page(
    request: Request, context: ContextDep, reader: Reader, query: Annotated[StudyListQuery, Depends()]
) -> HTMLResponse:
    """A page of your studies; for an admin, of all accounts."""
    study_list = FilteredStudyList(context, reader, query)
    etag, shown = study_list.compute_etag(), study_list.read_page()
    owner = visible_owner_or_none_for_admin(reader)
    return render_page_response(
        request,
        "studies.html",
        viewer=make_viewer_variables(reader),
        rows=shown.rows,
        any=bool(shown.rows) or context.ledger.study_lists.count_studies(owner) > 0,
        states=list(StudyState),
        tags=context.ledger.study_lists.count_studies_by_tag(study_list.owner),
        query=query,
        sizes=PAGE_SIZES,
        sorts=SORT_LABELS,
        etag=etag,
        next_cursor=shown.next_cursor,
    )


@router.get("/studies/rows")
def study_rows_fragment(
    request: Request, context: ContextDep, reader: Reader, query: Annotated[StudyListQuery, Depends()]
) -> Response:
    """The present rows of the list, for a script that keeps the page up to date."""
    study_list = FilteredStudyList(context, reader, query)
    etag = study_list.compute_etag()
    if is_etag_in_if_none_match(request, etag):
        return make_etag_response(request, b"", etag)
    fragment = render_fragment_response(
        "parts/study_table.html", viewer=make_viewer_variables(reader), rows=study_list.read_page().rows
    )
    return make_etag_response(request, bytes(fragment.body), etag, "text/html; charset=utf-8")


@router.get("/studies/best")
def recommendations_fragment(
    context: ContextDep, reader: Reader, study: Annotated[list[int], Query(max_length=_MAX_ANSWERS)]
) -> HTMLResponse:
    """The recommended configuration of each of these studies; a script requests it after the list is shown."""
    study_ids = [study_id for study_id in study if 0 < study_id < _MAX_ID]
    page = PageRequest(_MAX_ANSWERS, "-created")
    items = context.ledger.study_lists.list_study_page_plus_one(
        page, owner=visible_owner_or_none_for_admin(reader), ids=study_ids
    )
    rows = []
    for item in items:
        is_running = item.state == StudyState.RUNNING
        board = (
            context.leaderboards.get_or_compute(item.id, item.results, allow_stale=is_running) if item.results else None
        )
        analysis = context.analyses.find_or_load_current_analysis(item.id) if board else None
        answer = _make_listed_recommendation(item.id, board, analysis)
        is_later = item.state == StudyState.COMPLETE and answer.row is not None and analysis is None
        rows.append(replace(answer, later=is_later))
    return render_fragment_response("parts/best.html", rows=rows)


def _make_listed_recommendation(
    study_id: int, board: CachedLeaderboard | None, analysis: Analysis | None
) -> ListedRecommendation:
    if board is None:
        return ListedRecommendation(study_id)
    recommended = find_recommended_row(board, analysis)
    row = recommended or board.leaderboard.best_row
    metrics = None if row is None else row.metrics.get(board.leaderboard.ranked_on)
    loss = None if metrics is None or row is None else confidence_interval_over_seeds(metrics.loss, row.seeds)
    if recommended is None or analysis is None or analysis.recommendation is None or analysis.comparison is None:
        return ListedRecommendation(study_id, row, loss)
    verdict = short_verdict_text(analysis.recommendation.verdict, analysis.comparison.required)
    return ListedRecommendation(study_id, row, loss, verdict)
