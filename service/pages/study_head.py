"""The head of a study's page: what a user can do with it, its state and progress, and what must be known first."""

from __future__ import annotations

from typing import Any

from bln_search.core.enums import StudyKind
from bln_search.core.score_description import CROSS_ENTROPY
from bln_search.core.states import StudyState, TrialState
from bln_search.specs.study import StudySpec
from bln_search.storage.listing.studies import StudyItemWithSpec
from bln_search.storage.studies.queue_order import QueuePlace
from bln_search.storage.tokens import Bearer
from service.context import Context
from service.pages.rendering.viewer import viewer_context
from service.serializers import serialize_study

_WAITING = (StudyState.ACCEPTED, StudyState.RUNNING)


def head_values(context: Context, listed: StudyItemWithSpec, bearer: Bearer) -> dict[str, Any]:
    """Return the template variables of the head of a study's page."""
    spec = _find_external(listed)
    return {
        "viewer": viewer_context(bearer),
        "study": serialize_study(listed),
        "place": _find_place(context, listed),
        "external": None if spec is None else spec.external,
        "loss": CROSS_ENTROPY if spec is None else spec.loss,
        "banner": _banner(context, listed),
    }


def _banner(context: Context, listed: StudyItemWithSpec) -> dict[str, Any] | None:
    """Return what a user must know first: no worker, a failed study, or a complete one without a usable network."""
    trials = listed.trials
    unusable = {state.value: trials[state] for state in (TrialState.DIVERGED, TrialState.FAILED) if trials.get(state)}
    count, total = sum(unusable.values()), max(listed.planned, sum(trials.values()))
    if listed.state == StudyState.FAILED:
        return {"kind": "failed", "text": listed.reason or "The study failed", "unusable": unusable}
    if listed.state == StudyState.COMPLETE and unusable:
        kind = "unusable" if count >= total else "gaps"
        return {"kind": kind, "text": f"{count} of {total} trials have no usable network", "unusable": unusable}
    if listed.state in _WAITING and not context.ledger.workers.list_live():
        return {"kind": "worker", "text": "No worker is running, so this study waits.", "unusable": {}}
    return None


def _find_place(context: Context, listed: StudyItemWithSpec) -> QueuePlace | None:
    """Return the place in the queue; None for a study that does not wait for a worker, or has none to wait for."""
    if listed.state != StudyState.ACCEPTED or not context.ledger.workers.list_live():
        return None
    return context.ledger.listing.read_queue_places(context.settings.running_studies).get(listed.id)


def _find_external(study: StudyItemWithSpec) -> StudySpec | None:
    """Return the specification of a study with external results; None for other studies."""
    if study.kind != StudyKind.EXTERNAL:
        return None
    return StudySpec.model_validate_json(study.spec_json)
