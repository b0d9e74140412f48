"""The head of a study's page: what a user can do with it, its state and progress, and what must be known first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bln_search.core.enums import StudyKind
from bln_search.core.score_description import CROSS_ENTROPY
from bln_search.core.states import StudyState, TrialState
from bln_search.specs.study import StudySpec
from bln_search.storage.listing.studies import StudyItemWithSpec
from bln_search.storage.tokens import Bearer
from service.context import Context
from service.pages.rendering.viewer import viewer_context
from service.serializers import serialize_study


@dataclass(frozen=True)
class Action:
    """A button that changes a study.

    Attributes:
        name: Last segment of the path of the REST API; `delete` for the method DELETE.
        label: Text of the button.
        states: States of a study in which the button is shown.
        question: Text of the confirmation; None for an action that loses nothing.
    """

    name: str
    label: str
    states: tuple[StudyState, ...]
    question: str | None = None


_WAITING = (StudyState.ACCEPTED, StudyState.RUNNING)
ACTIONS = (
    Action("pause", "Pause", _WAITING),
    Action("resume", "Resume", (StudyState.PAUSED,)),
    Action("retry-failed", "Try failed trials again", (StudyState.FAILED,)),
    Action(
        "cancel",
        "Cancel",
        (*_WAITING, StudyState.PAUSED, StudyState.INTERRUPTED),
        "Stop this study for good? What is finished is kept.",
    ),
    Action(
        "delete",
        "Delete",
        tuple(state for state in StudyState if state is not StudyState.RUNNING),
        "Delete this study with all its results?",
    ),
)


def head_values(context: Context, listed: StudyItemWithSpec, bearer: Bearer) -> dict[str, Any]:
    """Return the template variables of the head of a study's page."""
    spec = _find_external(listed)
    return {
        "viewer": viewer_context(bearer),
        "study": serialize_study(listed),
        "external": None if spec is None else spec.external,
        "loss": CROSS_ENTROPY if spec is None else spec.loss,
        "banner": _banner(context, listed),
        "actions": ACTIONS,
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


def _find_external(study: StudyItemWithSpec) -> StudySpec | None:
    """Return the specification of a study with external results; None for other studies."""
    if study.kind != StudyKind.EXTERNAL:
        return None
    return StudySpec.model_validate_json(study.spec_json)
