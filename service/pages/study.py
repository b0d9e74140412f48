"""Page of a study: its progress, live."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from bln_search.core.enums import StudyKind
from bln_search.ranking.analysis import Analysis
from bln_search.reports.formatting import compared_rows
from bln_search.reports.sentences.leaderboard import leaderboard_warning
from bln_search.specs.external import ExternalSpec
from bln_search.specs.space import format_point_json
from bln_search.specs.study import StudySpec
from bln_search.storage.ledger import Ledger
from bln_search.storage.listing.studies import StudyItemWithSpec
from bln_search.storage.listing.trials import TrialStatus
from service.context import Context, ContextDep
from service.http.problems import ProblemException
from service.pages.leaderboard import display_row
from service.pages.rendering.templates import page, render_fragment
from service.pages.rendering.viewer import viewer_context
from service.security import ReadableStudy, StudyAccess
from service.serializers import serialize_event, serialize_study

router = APIRouter(prefix="/studies/{study_id:number}", include_in_schema=False)
_MAX_GRID_CELLS = 600
_MAX_EVENTS = 50
_LEADING_ROWS = 8
_MAX_RESULTS_BEFORE_PAGE = 200
"""Number of trials with a result up to which the leaderboard is computed before the page is sent."""


@router.get("")
def study_page(request: Request, study: ReadableStudy, context: ContextDep) -> HTMLResponse:
    """A study at a glance; a script keeps the page up to date."""
    listed = context.ledger.listing.find_study(study.id)
    if listed is None:
        raise ProblemException(404, "not-found", f"there is no study {study.id}")
    analysis = context.analyses.get(study.id)
    latest = context.ledger.events.list_last(study.id, _MAX_EVENTS)
    events = [serialize_event(row) for row in latest if row.number <= listed.last_event]  # the stream sends later ones
    return page(
        request,
        "study.html",
        charts=True,
        viewer=viewer_context(study.bearer),
        study=serialize_study(listed),
        per_layer=analysis is not None and bool(analysis.layers),
        external=_find_external(listed),
        spec=json.dumps(json.loads(listed.spec_json), indent=1, ensure_ascii=False),
        last=listed.last_event,
        events=events,
        names=context.ledger.listing.find_trial_labels(sorted({event.trial_id for event in events if event.trial_id})),
        **_trial_grid(context.ledger, study.id),
        **leading_rows(context, study, listed.results, analysis, only_cached=listed.results > _MAX_RESULTS_BEFORE_PAGE),
    )


@router.get("/parts/leading")
def leading_part(study: ReadableStudy, context: ContextDep) -> HTMLResponse:
    """The present first rows of the leaderboard."""
    analysis = context.analyses.get(study.id)
    return render_fragment(
        "parts/leading.html", study={"id": study.id}, **leading_rows(context, study, study.results, analysis)
    )


@router.get("/parts/cells")
def cells_part(study: ReadableStudy, context: ContextDep) -> HTMLResponse:
    """The present states of the trials."""
    return render_fragment("parts/cells.html", **_trial_grid(context.ledger, study.id))


def leading_rows(
    context: Context, study: StudyAccess, results: int, analysis: Analysis | None, *, only_cached: bool = False
) -> dict[str, Any]:
    """Return the template variables of the first rows of the leaderboard.

    Args:
        context: The application's context.
        study: The study.
        results: Number of its trials with a result.
        analysis: Its analysis, if there is one.
        only_cached: Use only a leaderboard that is cached; a script on the page requests the rows if there is none.
    """
    board = None
    if results:
        board = context.leaderboards.find_any(study.id) if only_cached else None
        board = board or (
            None if only_cached else context.leaderboards.get(study.id, results, allow_stale=study.is_active)
        )
    groups = compared_rows(analysis) if board else {}
    rows = [display_row(row, board, groups) for row in board.leaderboard.rows[:_LEADING_ROWS]] if board else []
    return {
        "rows": rows,
        "later": only_cached and (board is None or board.results != results),
        "total": len(board.leaderboard.rows) if board else 0,
        "arms": len({(row.arm, row.point) for row in board.leaderboard.rows}) if board else 0,
        "ranked_on": board.leaderboard.ranked_on.value if board else None,
        "warning": leaderboard_warning(board.leaderboard) if board else None,
    }


def _find_external(study: StudyItemWithSpec) -> ExternalSpec | None:
    """Return the networks of a study with external results; None for other studies."""
    if study.kind != StudyKind.EXTERNAL:
        return None
    return StudySpec.model_validate_json(study.spec_json).external


def _trial_grid(ledger: Ledger, study_id: int) -> dict[str, Any]:
    """Return the trials by arm and point, a column for each seed; for a large study their number by state."""
    statuses = ledger.listing.list_trial_statuses(study_id, _MAX_GRID_CELLS)
    if statuses is None:
        return {"grid": None, "seeds": [], "counts": ledger.listing.count_trials_by_arm(study_id)}
    seeds = sorted({status.seed for status in statuses})
    grid: dict[tuple[str, str], dict[int, TrialStatus]] = {}
    for status in statuses:
        grid.setdefault((status.arm, status.point), {})[status.seed] = status
    rows = [(arm, format_point_json(point), row) for (arm, point), row in grid.items()]
    return {"grid": rows, "seeds": seeds, "counts": {}}
