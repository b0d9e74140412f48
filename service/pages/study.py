"""Page of a study: its progress, live."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from bln_search.core.states import StudyState
from bln_search.ranking.analysis import Analysis
from bln_search.reports.leaderboard_columns import LeaderboardView
from bln_search.reports.sentences.leaderboard import find_test_ranking_warning
from bln_search.reports.sentences.seed_looks import seed_looks_sentence
from bln_search.specs.sections.point_labels import make_label_by_distinct_point
from bln_search.specs.study import StudySpec
from bln_search.specs.study_yaml import render_study_yaml
from bln_search.storage.ledger import Ledger
from bln_search.storage.listing.trials import TrialStatus
from service.caching.leaderboard_cache import CachedLeaderboard
from service.context import AppContext, ContextDep
from service.pages.answer import find_recommendation_summary
from service.pages.leaderboard.rows import decimals_by_metric, make_row_with_confidence_intervals
from service.pages.live import log_line_variables
from service.pages.rendering.templates import make_viewer_variables, render_fragment_response, render_page_response
from service.pages.study_head import get_study_item, list_pages_of_analysis, study_head_variables
from service.security import ReadableStudy, StudyAccess

router = APIRouter(prefix="/studies/{study_id:number}", include_in_schema=False)
_MAX_GRID_CELLS = 600
_MAX_EVENTS = 50
_LEADING_ROWS = 8
_MAX_REASONS = 50
_MAX_RESULTS_BEFORE_PAGE = 200
"""Number of trials with a result up to which the leaderboard is computed before the page is sent."""


@router.get("")
def study_page(request: Request, study: ReadableStudy, context: ContextDep) -> HTMLResponse:
    """A study at a glance; a script keeps the page up to date."""
    listed = get_study_item(context, study.id)
    analysis = context.analyses.find_or_load_current_analysis(study.id)
    only_cached = listed.results > _MAX_RESULTS_BEFORE_PAGE
    board = _find_leaderboard(context, study, listed.results, only_cached=only_cached)
    later = only_cached and (board is None or board.results != listed.results)
    latest = context.ledger.events.list_newest_events(study.id, _MAX_EVENTS)
    events = [record for record in latest if record.number <= listed.last_event]  # the stream sends later ones
    spec = StudySpec.model_validate_json(listed.spec_json)
    return render_page_response(
        request,
        "study.html",
        charts=True,
        more_pages=list_pages_of_analysis(analysis),
        spec=render_study_yaml(spec),
        last=listed.last_event,
        **log_line_variables(context.ledger, events),
        **_trial_grid_variables(context.ledger, study.id, spec),
        **(
            leading_rows_variables(board, analysis, later=later)
            | recommendation_variables(board, analysis, listed.state, later=later)
        ),
        **study_head_variables(context, listed, study.bearer),
    )


@router.get("/parts/leading")
def top_rows_fragment(study: ReadableStudy, context: ContextDep) -> HTMLResponse:
    """The present first rows of the leaderboard."""
    board = _find_leaderboard(context, study, study.results)
    values = leading_rows_variables(board, context.analyses.find_or_load_current_analysis(study.id))
    return render_fragment_response("parts/leading.html", study={"id": study.id, "state": study.state}, **values)


@router.get("/parts/answer")
def recommendation_fragment(study: ReadableStudy, context: ContextDep) -> HTMLResponse:
    """The recommended configuration."""
    board = _find_leaderboard(context, study, study.results)
    values = recommendation_variables(board, context.analyses.find_or_load_current_analysis(study.id), study.state)
    return render_fragment_response(
        "parts/answer.html",
        study={"id": study.id, "state": study.state},
        viewer=make_viewer_variables(study.bearer),
        **values,
    )


@router.get("/parts/cells")
def trial_states_fragment(study: ReadableStudy, context: ContextDep) -> HTMLResponse:
    """The present states of the trials."""
    return render_fragment_response(
        "parts/cells.html",
        study={"id": study.id},
        **_trial_grid_variables(context.ledger, study.id, context.ledger.studies.get(study.id).spec),
    )


def _find_leaderboard(
    context: AppContext, study: StudyAccess, results: int, *, only_cached: bool = False
) -> CachedLeaderboard | None:
    """Return the leaderboard; None before the first result.

    Args:
        context: The application's context.
        study: The study.
        results: Number of its trials with a result.
        only_cached: Use only a leaderboard that is cached; a script on the page requests the rows if there is none.
    """
    if not results:
        return None
    if only_cached:
        return context.leaderboards.find_of_any_age(study.id)
    return context.leaderboards.get_or_compute(study.id, results, allow_stale=study.is_queued_or_running)


def leading_rows_variables(
    board: CachedLeaderboard | None, analysis: Analysis | None, *, later: bool = False
) -> dict[str, Any]:
    """Return the template variables of the first rows of the leaderboard.

    Args:
        board: The leaderboard; None before the first result, or if it is not computed yet.
        analysis: The analysis of the study, if there is one.
        later: A script requests the rows of a newer leaderboard.
    """
    all_rows = board.leaderboard.rows if board else ()
    rows = []
    if board:
        view = LeaderboardView.of_analysis(board.leaderboard, analysis)
        rows = [make_row_with_confidence_intervals(row, view) for row in all_rows[:_LEADING_ROWS]]
    return {
        "rows": rows,
        "decimals": decimals_by_metric(rows, board.leaderboard) if board else {},
        "later": later,
        "total": len(all_rows),
        "arms": len({(row.arm, row.point) for row in all_rows}),
        "batch_sizes": len({row.batch_size for row in all_rows}),
        "ranked_on": board.leaderboard.ranked_on.value if board else None,
        "has_accuracy": board is None or board.leaderboard.has_accuracy,
        "warning": find_test_ranking_warning(board.leaderboard) if board else None,
    }


def recommendation_variables(
    board: CachedLeaderboard | None, analysis: Analysis | None, state: str, *, later: bool = False
) -> dict[str, Any]:
    """Return the template variables of the answer: `answer`, or why there is none.

    Args:
        board: The leaderboard; None before the first result, or if it is not computed yet.
        analysis: The analysis of the study, if there is one.
        state: State of the study.
        later: A script requests the answer of a newer leaderboard.
    """
    has_ranks = board is not None and board.leaderboard.best_row is not None
    return {
        "answer": find_recommendation_summary(board, analysis),
        "answer_later": later or (has_ranks and analysis is None and state == StudyState.COMPLETE),
        "answer_missing": None if analysis is None else analysis.reason,
        "has_ranks": has_ranks,
        "ranked_on": board.leaderboard.ranked_on.value if board else None,
        "ranking_condition": board.spec.ranking_condition_name if board else None,
    }


def _trial_grid_variables(ledger: Ledger, study_id: int, spec: StudySpec) -> dict[str, Any]:
    """Return the trials by arm and point, a column for each seed; for a large study their number by state."""
    statuses = ledger.trial_lists.list_trial_statuses_if_few(study_id, _MAX_GRID_CELLS)
    if statuses is None:
        return {
            "looks": "",
            "grid": None,
            "seeds": [],
            "counts": ledger.trial_lists.count_trials_by_arm_and_state(study_id),
            "reasons": [],
            "point_labels": {},
        }
    seeds = sorted({status.seed for status in statuses})
    grid: dict[tuple[str, str], dict[int, TrialStatus]] = {}
    for status in statuses:
        grid.setdefault((status.arm, status.point), {})[status.seed] = status
    labels = make_label_by_distinct_point(point for _, point in grid)
    rows = [(arm, labels[point], row) for (arm, point), row in grid.items()]
    reasons = [status for status in statuses if status.reason][:_MAX_REASONS]
    looks = seed_looks_sentence(spec, statuses)
    return {"looks": looks, "grid": rows, "seeds": seeds, "counts": {}, "reasons": reasons, "point_labels": labels}
