"""Studies of a service."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from bln_search.cli.sources.studies import ALL_STUDIES, StudyFilter
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.records import CheckpointRecord, RowKey
from bln_search.core.states import StudyState, TrialState
from bln_search.ranking.grouping import LossBySeed
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.specs.records import StudyRecord, TrialRecord
from bln_search.storage.events import EventRecord

if TYPE_CHECKING:
    from bln_search.client import Client
    from bln_search.ranking.analysis import Analysis

_WAITING_STATES = {f"study_{state}": state for state in (StudyState.PAUSED, StudyState.INTERRUPTED)}
"""States in which a study waits for a user, by the event that announces them; the stream of a service stays open."""

_CHECKPOINT_FIELDS = ("file", "sha256", "epoch", "judged_under", "validation_loss", "provenance")


class ServiceSource:
    """Studies of a service."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def list_studies(self, study_filter: StudyFilter = ALL_STUDIES) -> list[dict[str, object]]:
        """Return the fields of every study that passes the filter, newest first."""
        filters = {
            "state": [state.value for state in study_filter.states] or None,
            "name": study_filter.name,
            "owner": study_filter.owner,
            "tag": list(study_filter.tags) or None,
        }
        return [
            _study_list_fields_from_json(study) for study in islice(self.client.studies(**filters), study_filter.limit)
        ]

    def get_study(self, name_or_id: str) -> StudyRecord:
        """Return the study with this number, or your newest one with this name."""
        return _study_record_from_json(self.client.study(name_or_id))

    def list_trials(self, study_id: int) -> list[TrialRecord]:
        """Return the trials of a study."""
        return [_trial_record_from_json(trial) for trial in self.client.trials(study_id)]

    def get_leaderboard(self, study: StudyRecord, arm: str | None, on: Split | None) -> Leaderboard:
        """Return the leaderboard."""
        return self.client.leaderboard(study.id, arm=arm, on=None if on is None else on.value)

    def get_losses_by_row(self, study: StudyRecord, split: Split) -> dict[RowKey, LossBySeed]:
        """Return the losses of every row on a split, by seed."""
        points = {trial.id: trial.point_json for trial in self.list_trials(study.id)}
        losses: dict[RowKey, LossBySeed] = {}
        for evaluation in self.client.evaluations(study.id, split=split.value):
            is_clean = not evaluation.get("condition")  # earlier services have clean evaluations only
            if is_clean and evaluation["loss"] is not None:
                key = RowKey(
                    evaluation["arm"],
                    points[evaluation["trial_id"]],
                    InferenceConfiguration(evaluation["configuration"]),
                    evaluation["estimate"],
                    evaluation["batch_size"],
                )
                losses.setdefault(key, {})[evaluation["seed"]] = evaluation["loss"]
        return losses

    def find_or_compute_analysis(self, study: StudyRecord, *, allow_incomplete: bool = False) -> Analysis | None:
        """Return the analysis once a worker has computed it; workers analyze complete studies only."""
        if study.state is not StudyState.COMPLETE and not allow_incomplete:
            return None
        return self.client.analysis(study.id)

    def list_events(self, study_id: int) -> list[EventRecord]:
        """Return the events of a study so far, oldest first."""
        return [_event_record_from_json(event) for event in self.client.list_events(study_id)]

    def follow_events(
        self, study_id: int, after: int = 0, on_idle: Callable[[], None] | None = None
    ) -> Iterator[EventRecord]:
        """Yield the events with numbers above `after` and wait for new ones; `on_idle` as for `Client`."""
        for event in self.client.follow_events(study_id, after, on_idle=on_idle):
            yield _event_record_from_json(event)
            state = _WAITING_STATES.get(event["kind"])
            if state is not None and self.client.study(study_id)["state"] == state:
                return

    def find_schema_revision(self) -> str | None:
        """Return None: the API does not return it."""
        return None


def _event_record_from_json(event: dict[str, Any]) -> EventRecord:
    values = {field.name: event[field.name] for field in fields(EventRecord)}
    return EventRecord(**{**values, "at": datetime.fromisoformat(event["at"])})


def _study_list_fields_from_json(study: dict[str, Any]) -> dict[str, object]:
    progress = study["progress"]
    return {
        "id": study["id"],
        "name": study["name"],
        "owner": study["owner"],
        "state": study["state"],
        "trials": progress["trials"],
        "finished": progress["ended"],
        "failed": progress["failed"],
        "created": datetime.fromisoformat(study["created_at"]).isoformat(timespec="seconds"),
        "tags": " ".join(study.get("tags", ())),
    }


def _study_record_from_json(study: dict[str, Any]) -> StudyRecord:
    progress = study["progress"]
    return StudyRecord(
        id=study["id"],
        name=study["name"],
        state=StudyState(study["state"]),
        created_at=datetime.fromisoformat(study["created_at"]),
        ended_at=None if study["ended_at"] is None else datetime.fromisoformat(study["ended_at"]),
        trials={TrialState.FINISHED: progress["ended"], TrialState.FAILED: progress["failed"]},
        spec_json=json.dumps(study["spec"]),
        planned=progress["trials"],
        reason=study["reason"],
        owner=study["owner"],
        tags=tuple(study.get("tags", ())),
        code_changes=tuple(study.get("code_changes", ())),
    )


def _trial_record_from_json(trial: dict[str, Any]) -> TrialRecord:
    checkpoint = trial["checkpoint"]
    names = ("id", "position", "arm", "method", "seed", "parameters", "reason")
    return TrialRecord(
        **{name: trial[name] for name in names},
        state=TrialState(trial["state"]),
        checkpoint=None
        if checkpoint is None
        else CheckpointRecord(**{name: checkpoint[name] for name in _CHECKPOINT_FIELDS}),
    )
