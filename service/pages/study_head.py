"""The head of a study's page: what a user can do with it, its state and progress, and what must be known first."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse

from bln_search.core.enums import StudyKind
from bln_search.core.states import StudyState, TrialState
from bln_search.ranking.analysis import Analysis
from bln_search.specs.study import StudySpec
from bln_search.storage.listing.studies import StudyListItemWithSpec
from bln_search.storage.studies.queue_order import QueuePlace
from bln_search.storage.tokens import Bearer, TokenKind
from bln_search.storage.webhook.deliveries import DeliveryRecord
from service.context import AppContext
from service.http.problems import ProblemException
from service.pages.rendering.templates import make_viewer_variables, render_page_response
from service.security import StudyAccess
from service.serializers import serialize_study_detail

_WAITING = (StudyState.ACCEPTED, StudyState.RUNNING)


def study_head_variables(context: AppContext, listed: StudyListItemWithSpec, bearer: Bearer) -> dict[str, Any]:
    """Return the template variables of the head of a study's page."""
    spec = StudySpec.model_validate_json(listed.spec_json)
    waits_for_worker = bool(listed.owner) and listed.state in _WAITING
    lacks_worker = waits_for_worker and not context.ledger.workers.list_live_workers()
    return {
        "viewer": make_viewer_variables(bearer),
        "study": serialize_study_detail(listed),
        "has_remaining_time": listed.state == StudyState.RUNNING and not lacks_worker,
        "place": None if lacks_worker else _find_queue_place(context, listed),
        "external": spec.external,
        "loss": spec.loss_description,
        "banner": _find_banner(listed, lacks_worker=lacks_worker),
        "delivery": _find_last_delivery(context, listed, bearer),
    }


def get_study_item(context: AppContext, study_id: int) -> StudyListItemWithSpec:
    """Return a study of the list. Raises ProblemException (404) if it was just deleted."""
    listed = context.ledger.study_lists.find_study_item(study_id)
    if listed is None:
        raise ProblemException(404, "not-found", f"there is no study {study_id}")
    return listed


def render_study_page(
    request: Request, template: str, context: AppContext, study: StudyAccess, *, charts: bool = False, **values: Any
) -> HTMLResponse:
    """Render a page below a study.

    Args:
        request: The request.
        template: Name of the template.
        context: The application's context.
        study: The study.
        charts: The page contains charts.
        values: Further variables of the template.
    """
    analysis = context.analyses.find_or_load_current_analysis(study.id)
    return render_page_response(
        request,
        template,
        charts=charts,
        viewer=make_viewer_variables(study.bearer),
        study=_study_title_variables(context, study),
        more_pages=list_pages_of_analysis(analysis),
        **values,
    )


def list_pages_of_analysis(analysis: Analysis | None) -> list[tuple[str, str]]:
    """Return name and title of the pages that a study has only with these parts of its analysis."""
    if analysis is None:
        return []
    has_streams = analysis.streams is not None and bool(analysis.streams.rows)
    pages = {("layers", "Per layer"): bool(analysis.layers), ("streams", "Streams"): has_streams}
    return [page for page, exists in pages.items() if exists]


def _study_title_variables(context: AppContext, study: StudyAccess) -> dict[str, Any]:
    """Return what the pages below a study show of it; its title is the edited one."""
    listed = context.ledger.study_lists.find_study_item(study.id)
    return {
        "id": study.id,
        "name": study.name,
        "title": listed.title if listed else "",
        "state": study.state,
        "code_changes": listed.code_changes if listed else (),
        "is_external": listed is not None and listed.kind == StudyKind.EXTERNAL,
    }


def _find_banner(listed: StudyListItemWithSpec, *, lacks_worker: bool) -> dict[str, Any] | None:
    """Return what a user must know first: no worker, a failed study, or a complete one without a usable network."""
    trials = listed.trials
    unusable = {state.value: trials[state] for state in (TrialState.DIVERGED, TrialState.FAILED) if trials.get(state)}
    count, total = sum(unusable.values()), max(listed.planned, sum(trials.values()))
    if listed.state == StudyState.FAILED:
        return {"kind": "failed", "text": (listed.reason or "The study failed").strip(), "unusable": unusable}
    if listed.state == StudyState.COMPLETE and unusable:
        kind = "unusable" if count >= total else "gaps"
        return {"kind": kind, "text": f"{count} of {total} trials have no usable network", "unusable": unusable}
    if lacks_worker:
        return {"kind": "worker", "text": "No worker is running, so this study waits.", "unusable": {}}
    return None


def _find_last_delivery(context: AppContext, listed: StudyListItemWithSpec, bearer: Bearer) -> DeliveryRecord | None:
    """Return the message about the last end of the study; None if there is none, and for a share link."""
    if listed.ended_at is None or bearer.kind is TokenKind.SHARE:
        return None
    return next(iter(context.ledger.deliveries.list_deliveries(listed.id)), None)


def _find_queue_place(context: AppContext, listed: StudyListItemWithSpec) -> QueuePlace | None:
    """Return the place in the queue; None for a study that does not wait for a worker."""
    if listed.state != StudyState.ACCEPTED:
        return None
    return context.ledger.queue.read_queue_places(context.settings.running_studies).get(listed.id)
