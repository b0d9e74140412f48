"""Page with the list of studies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from bln_search.core.states import StudyState
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.selection.certainty import Certainty, certainty
from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.formatting import confidence_interval_over_seeds
from service.caching.leaderboard_cache import CachedLeaderboard
from service.context import ContextDep
from service.http.pagination import Cursor, decode_cursor, encode_cursor
from service.pages.answer import find_recommended
from service.pages.rendering.templates import render_fragment, render_page
from service.pages.rendering.viewer import viewer_context
from service.routes.studies import SORT_KEYS, StudySort
from service.security import Reader, visible_owner
from service.serializers import serialize_study

router = APIRouter(include_in_schema=False)
_PAGE_SIZE = 25
_MAX_ID = 2**31


@dataclass(frozen=True)
class ListedAnswer:
    """The recommended configuration of a study, or its leading one before the study is analyzed.

    Attributes:
        study_id: The study.
        row: The row; None before the first result.
        loss: Its mean loss on the split that ranks.
        top_group_size: Number of rows that do not differ significantly from the best one.
        certainty: How certain it is that the row of lowest mean loss is the best one; None for a leading row.
    """

    study_id: int
    row: LeaderboardRow | None = None
    loss: ConfidenceInterval | None = None
    top_group_size: int = 0
    certainty: Certainty | None = None


@router.get("/studies")
def studies_page(
    request: Request,
    context: ContextDep,
    reader: Reader,
    state: Annotated[list[StudyState | Literal[""]] | None, Query(max_length=10)] = None,
    name: Annotated[str, Query(max_length=64)] = "",
    sort: StudySort = "-created",
    cursor: Cursor = None,
) -> HTMLResponse:
    """A page of your studies; for an admin, of all accounts."""
    states = sorted(selected.value for selected in state or () if selected)
    owner = visible_owner(reader)
    pattern = name.strip().lower().replace("\0", "?")  # Postgres rejects NUL; no name contains either character
    list_query: dict[str, Any] = {"page": "studies", "owner": owner, "state": states, "name": pattern}
    key_types = SORT_KEYS[sort.removeprefix("-")]
    page_query = decode_cursor(cursor, _PAGE_SIZE, sort, list_query, key_types)
    items = context.ledger.listing.list_studies(page_query, owner=owner, states=states, name=pattern or None)
    next_cursor = None
    if len(items) > _PAGE_SIZE:
        last = items[_PAGE_SIZE - 1]
        value = (last.id,) if len(key_types) == 1 else (getattr(last, sort.removeprefix("-")), last.id)
        next_cursor = encode_cursor(value, sort, list_query)
    return render_page(
        request,
        "studies.html",
        viewer=viewer_context(reader),
        studies=[serialize_study(item) for item in items[:_PAGE_SIZE]],
        any=bool(items) or context.ledger.listing.count_studies(owner) > 0,
        states=list(StudyState),
        chosen=states,
        name=pattern,
        sort=sort,
        first=cursor is None,
        next_cursor=next_cursor,
    )


@router.get("/studies/best")
def best_configurations(
    context: ContextDep, reader: Reader, study: Annotated[list[int], Query(max_length=_PAGE_SIZE)]
) -> HTMLResponse:
    """The recommended configuration of each of these studies; a script requests it after the list is shown."""
    study_ids = [study_id for study_id in study if 0 < study_id < _MAX_ID]
    page_query = decode_cursor(None, _PAGE_SIZE, "-created", {})
    items = context.ledger.listing.list_studies(page_query, owner=visible_owner(reader), ids=study_ids)
    rows = []
    for item in items:
        is_running = item.state == StudyState.RUNNING
        board = context.leaderboards.get(item.id, item.results, allow_stale=is_running) if item.results else None
        rows.append(_listed_answer(item.id, board, context.analyses.get(item.id) if board else None))
    return render_fragment("parts/best.html", rows=rows)


def _listed_answer(study_id: int, board: CachedLeaderboard | None, analysis: Analysis | None) -> ListedAnswer:
    if board is None:
        return ListedAnswer(study_id)
    recommended = find_recommended(board, analysis)
    row = recommended or board.leaderboard.best
    metrics = None if row is None else row.metrics.get(board.leaderboard.ranked_on)
    loss = None if metrics is None or row is None else confidence_interval_over_seeds(metrics.loss, row.seeds)
    if recommended is None or analysis is None or analysis.recommendation is None or analysis.comparison is None:
        return ListedAnswer(study_id, row, loss, top_group_size=len(board.top_group_by_seeds or ()))
    degree = certainty(analysis.recommendation, analysis.comparison)
    return ListedAnswer(study_id, row, loss, len(analysis.comparison.top_group), degree)
