"""What a user can do with a study in its present state, for the list and the page of a study."""

from __future__ import annotations

from bln_search.core.states import StopRequest, StudyState
from service.schemas.studies import Study

ACTION_LABELS = {"pause": "Pause", "resume": "Resume", "cancel": "Cancel", "delete": "Delete"}
"""Labels of the actions by name: the last segment of the path of the REST API, `delete` for the method DELETE."""

_WAITING = (StudyState.ACCEPTED, StudyState.RUNNING)
_STATES = {
    "pause": _WAITING,
    "resume": (StudyState.PAUSED, StudyState.CANCELLED, StudyState.FAILED),
    "cancel": (*_WAITING, StudyState.PAUSED, StudyState.INTERRUPTED),
    "delete": tuple(StudyState),
}


def list_actions_allowed_by_state(study: Study) -> tuple[str, ...]:
    """Return the names of the actions that the study's state allows, in the order of their buttons.

    A running study is cancelled before it is deleted. *Resume* also withdraws a request that is not carried out yet.
    """
    return tuple(name for name in ACTION_LABELS if _is_action_allowed(name, study))


def _is_action_allowed(name: str, study: Study) -> bool:
    if study.request is not None:
        return name in ("resume", "delete") or (name, study.request) == ("cancel", StopRequest.PAUSE)
    if name == "resume" and not study.owner:
        return False  # a study of a command is resumed by that command
    return study.state in _STATES[name]
