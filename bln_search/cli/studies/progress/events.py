"""Events of a study as lines and records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bln_search.cli.local_time import format_local_time
from bln_search.cli.sources.studies import StudySource
from bln_search.specs.records import TrialRecord
from bln_search.storage.events import EventRecord

EPOCH = "epoch"
"""Kind of the event after each epoch of a trial."""

EVENT_COLUMNS = ("number", "at", "trial", "arm", "parameters", "seed", "event", "message")


class StudyTrialCache:
    """The trials of a study by id. They are read again for an id that is new: a search adds trials.

    Args:
        source: Source of the study.
        study_id: The study.
    """

    def __init__(self, source: StudySource, study_id: int) -> None:
        self._source, self._study_id = source, study_id
        self._trials: dict[int, TrialRecord] = {}

    def find_trial(self, trial_id: int | None) -> TrialRecord | None:
        """Return a trial; None for no id, and for a trial that does not exist."""
        if trial_id is not None and trial_id not in self._trials:
            self._trials = {trial.id: trial for trial in self._source.list_trials(self._study_id)}
        return None if trial_id is None else self._trials.get(trial_id)


def format_event_line(event: EventRecord, labels: StudyTrialCache) -> str:
    """Return an event as text: its local time, the trial, what happened."""
    trial = labels.find_trial(event.trial_id)
    subject = "" if event.trial_id is None else f"trial {event.trial_id}: "
    if trial is not None:
        point = f" {trial.point_label}" if trial.point_label else ""
        subject = f"trial {trial.id} ({trial.arm} seed {trial.seed}{point}): "
    return f"[{format_local_time(event.at, 'seconds')}] {subject}{format_event_message(event)}"


def event_to_record(event: EventRecord, labels: StudyTrialCache) -> dict[str, object]:
    """Return an event as a record; `data` holds the values that its message tells."""
    trial = labels.find_trial(event.trial_id)
    return {
        "number": event.number,
        "at": event.at.isoformat(),
        "trial": event.trial_id,
        "arm": None if trial is None else trial.arm,
        "parameters": None if trial is None else trial.point_json or None,
        "seed": None if trial is None else trial.seed,
        "event": event.kind,
        "message": format_event_message(event),
        "data": dict(event.data),
    }


def format_event_message(event: EventRecord) -> str:
    """Return what happened: the kind of the event and its most important values."""
    data = event.data
    if event.kind == EPOCH:
        return _format_epoch_message(data)
    kind = event.kind.replace("_", " ")
    if "account" in data:
        kind = f"{kind} by {data['account']}"
    if "reason" in data:
        return f"{kind}: {data['reason']}"
    details = [f"{name.replace('_', ' ')} {data[name]}" for name in ("attempt", "epoch", "evaluations") if name in data]
    return ", ".join([kind, *details])


def _format_epoch_message(data: Mapping[str, Any]) -> str:
    losses = [
        f"{split} loss {_format_loss(data[f'{split}_loss'])}{_format_accuracy(data[f'{split}_accuracy'])}"
        for split in ("training", "validation")
    ]
    return f"epoch {data['epoch']}: {'; '.join(losses)}; {data['seconds']:.2f} s"


def _format_loss(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _format_accuracy(value: float | None) -> str:
    return "" if value is None else f", accuracy {value:.2%}"
