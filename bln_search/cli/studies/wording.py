"""A study and its state in messages."""

from __future__ import annotations

from collections.abc import Mapping

from bln_search.core.states import StopRequest, StudyState

NO_WORKER = "no worker is running; `bln-search worker` on a machine of the service starts one"

_STATE_TEXTS: Mapping[str, str] = {StudyState.ACCEPTED: "waits in the queue", StudyState.RUNNING: "is running"}
_REQUEST_TEXTS: Mapping[str, str] = {
    StopRequest.PAUSE: "a pause is requested",
    StopRequest.CANCEL: "its cancellation is requested",
}


def format_study_label(study_id: int, name: str, owner: str) -> str:
    """Return number, name and owner of a study: `study 3 (quickstart, owner ada)`; without one for an empty owner."""
    return f"study {study_id} ({name}{f', owner {owner}' if owner else ''})"


def format_study_state(state: str, request: str | None = None) -> str:
    """Return what a study does, and what was requested of it: `is running, a pause is requested`."""
    text = _STATE_TEXTS.get(state, f"is {state}")
    return text if request is None else f"{text}, {_REQUEST_TEXTS[request]}"
