"""Studies of the local database or of a service, as the commands read them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.errors import BlnSearchError, MissingPackageError
from bln_search.core.process_identity import may_be_alive
from bln_search.core.records import CheckpointRecord, RowKey
from bln_search.core.states import ENDED, StudyState, TrialState, displayed_trial_state
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.grouping import LossBySeed, group_losses_by_row
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.specs.records import StudyRecord, TrialRecord
from bln_search.specs.study import StudySpec
from bln_search.storage.events import EventRecord
from bln_search.storage.ledger import Ledger

if TYPE_CHECKING:
    from bln_search.client import Client

FOLLOWED_STATES = (StudyState.ACCEPTED, StudyState.RUNNING)
"""States of a study that a process runs or will run: it has further events without a user's request."""

_POLL_SECONDS = 0.5
"""Interval between two reads of the events that are followed."""

_WAITING_STATES = {f"study_{state}": state for state in (StudyState.PAUSED, StudyState.INTERRUPTED)}
"""States in which a study waits for a user, by the event that announces them; the stream of a service stays open."""

_CHECKPOINT_FIELDS = ("file", "sha256", "epoch", "judged_under", "validation_loss", "provenance")


@dataclass(frozen=True)
class StudyFilter:
    """Which studies are listed.

    Attributes:
        states: Allowed states; empty for all.
        name: Text that the name contains; None for any name.
        owner: Account that owns the study; None for any.
        tags: Tags that the study has, all of them.
        limit: Largest number of studies; None for all.
    """

    states: tuple[StudyState, ...] = ()
    name: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    limit: int | None = None


ALL_STUDIES = StudyFilter()


class StudySource(Protocol):
    """Access to studies."""

    def list_studies(self, study_filter: StudyFilter = ALL_STUDIES) -> list[dict[str, object]]:
        """Return the fields of every study that passes the filter, newest first."""

    def get_study(self, name_or_id: str) -> StudyRecord:
        """Return the study with this number, or your newest one with this name."""

    def list_trials(self, study_id: int) -> list[TrialRecord]:
        """Return the trials of a study."""

    def get_leaderboard(self, study: StudyRecord, arm: str | None, on: Split | None) -> Leaderboard:
        """Return the leaderboard.

        Args:
            study: The study.
            arm: Return only the rows of this arm, with their ranks among all rows.
            on: Split that ranks; by default the study's.
        """

    def get_losses_by_row(self, study: StudyRecord, split: Split) -> dict[RowKey, LossBySeed]:
        """Return the losses of every row on a split, by seed."""

    def find_or_compute_analysis(self, study: StudyRecord, *, allow_incomplete: bool = False) -> Analysis | None:
        """Return the analysis; None if there is none yet.

        Args:
            study: The study.
            allow_incomplete: Analyze a study that is not complete.
        """

    def list_events(self, study_id: int) -> list[EventRecord]:
        """Return the events of a study so far, oldest first."""

    def follow_events(self, study_id: int, after: int = 0) -> Iterator[EventRecord]:
        """Yield the events with numbers above `after` and wait for new ones, until the study ends or waits for a user.

        Args:
            study_id: The study.
            after: Number of the last event that is known.
        """

    def find_schema_revision(self) -> str | None:
        """Return the revision of the database schema; None if it is unknown."""


def study_to_list_record(study: StudyRecord) -> dict[str, object]:
    """Return the fields of a study for a list."""
    return {
        "id": study.id,
        "name": study.name,
        "owner": study.owner,
        "state": study.state.value,
        "trials": study.planned,
        "finished": sum(study.trials.get(state, 0) for state in ENDED),
        "failed": study.trials.get(TrialState.FAILED, 0),
        "created": study.created_at.isoformat(timespec="seconds"),
        "tags": " ".join(study.tags),
    }


class LedgerSource:
    """Studies of the local database."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def list_studies(self, study_filter: StudyFilter = ALL_STUDIES) -> list[dict[str, object]]:
        """Return the fields of every study that passes the filter, newest first."""
        self._release_lost_studies()
        studies = (study for study in self.ledger.studies.list_studies() if _study_passes_filter(study, study_filter))
        return [study_to_list_record(study) for study in islice(studies, study_filter.limit)]

    def get_study(self, name_or_id: str) -> StudyRecord:
        """Return the study with this number, or the newest with this name."""
        self._release_lost_studies()
        return self.ledger.studies.get_by_name_or_id(name_or_id)

    def list_trials(self, study_id: int) -> list[TrialRecord]:
        """Return the trials of a study with their displayed states."""
        study = self.ledger.studies.get(study_id)
        return [
            replace(trial, state=displayed_trial_state(trial.state, study.state))
            for trial in self.ledger.trials.list_trials(study_id)
        ]

    def get_leaderboard(self, study: StudyRecord, arm: str | None, on: Split | None) -> Leaderboard:
        """Return the leaderboard."""
        board = self.ledger.results.rank_rows_of_study(study.id, study.spec, on=on)
        return board if arm is None else replace(board, rows=tuple(row for row in board.rows if row.arm == arm))

    def get_losses_by_row(self, study: StudyRecord, split: Split) -> dict[RowKey, LossBySeed]:
        """Return the losses of every row on a split, by seed."""
        return group_losses_by_row(self.ledger.results.list_evaluations_for_ranking(study.id), split)

    def find_or_compute_analysis(self, study: StudyRecord, *, allow_incomplete: bool = False) -> Analysis | None:
        """Return the analysis; compute it if it is not stored."""
        if study.state is not StudyState.COMPLETE and not allow_incomplete:
            return None
        stored = self.ledger.analyses.find_current_analysis(study.id)
        if stored is not None:
            return stored.analysis
        try:
            from bln_search.worker.analysis import compute_and_store_analysis
        except ModuleNotFoundError as error:
            if allow_incomplete:
                raise MissingPackageError(error.name, "search") from None
            return None
        return compute_and_store_analysis(self.ledger, study.id, None, save=False)

    def list_events(self, study_id: int) -> list[EventRecord]:
        """Return the events of a study so far, oldest first."""
        return list(self.ledger.events.list_events(study_id))

    def follow_events(self, study_id: int, after: int = 0) -> Iterator[EventRecord]:
        """Yield the events with numbers above `after` and wait for new ones."""
        while True:
            self._release_lost_studies()
            header = self.ledger.studies.find_header(study_id)  # before its events, of which none is missed then
            for event in self.ledger.events.list_events(study_id, after):
                yield event
                after = event.number
            if header is None or header.state not in FOLLOWED_STATES:
                return
            time.sleep(_POLL_SECONDS)

    def _release_lost_studies(self) -> None:
        """Let no study say that it runs whose process was killed."""
        with suppress(BlnSearchError):  # a full disk, or a database that another process writes; reading goes on
            self.ledger.studies.release_lost_studies(may_be_alive)

    def find_schema_revision(self) -> str | None:
        """Return the revision of the database schema."""
        return self.ledger.find_schema_revision()


def _study_passes_filter(study: StudyRecord, study_filter: StudyFilter) -> bool:
    is_named = study_filter.name is None or study_filter.name in study.name
    is_owned = study_filter.owner in (None, study.owner)
    is_tagged = {*study_filter.tags} <= {*study.tags}
    return is_named and is_owned and is_tagged and (not study_filter.states or study.state in study_filter.states)


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
        spec=StudySpec.model_validate(study["spec"]),
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
