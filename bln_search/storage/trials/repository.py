"""The trials of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from bln_search.core.enums import Split
from bln_search.core.states import TrialState, check_state_transition
from bln_search.specs.records import TrialRecord
from bln_search.specs.sampled_trial import SampledTrial
from bln_search.storage.database import Database
from bln_search.storage.events import NewEvent, append_event, append_events
from bln_search.storage.needed_files import read_freed_times_by_file
from bln_search.storage.row_factories import make_waiting_trial_rows
from bln_search.storage.tables import CheckpointRow, EvaluationRow, EventRow, StudyRow, TrialRow
from bln_search.storage.trials.records import make_trial_record, read_trial_records, select_trials_with_checkpoints

if TYPE_CHECKING:
    from bln_search.specs.trial import TrialSpec

_OPEN = (TrialState.WAITING, TrialState.TRAINED)


class TrialRepository:
    """Reads trials, and adds those of sampled points."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def add_trials_of_new_point(self, study_id: int, specs: Sequence[TrialSpec]) -> list[TrialRecord] | None:
        """Add the trials of a sampled point, one for each seed; None where one of them exists already."""
        with self.database.write_session() as session:
            session.get_one(StudyRow, study_id, with_for_update=True)
            keys = [spec.key for spec in specs]
            if session.scalar(
                select(TrialRow.id).where(TrialRow.study_id == study_id, TrialRow.key.in_(keys)).limit(1)
            ):
                return None
            position = session.scalar(select(func.count()).where(TrialRow.study_id == study_id)) or 0
            rows = make_waiting_trial_rows(specs, study_id, position=position)
            session.add_all(rows)
            session.flush()
            data = {"parameters": specs[0].parameters, "arm": specs[0].arm.label}
            append_event(session, study_id, self.database.now(session), "point_added", data)
            return [make_trial_record(row, None) for row in rows]

    def list_trials(self, study_id: int) -> list[TrialRecord]:
        """Every trial of a study, by position."""
        with self.database.read_session() as session:
            freed_files = read_freed_times_by_file(session, study_id)
            return read_trial_records(
                session, select_trials_with_checkpoints(study_id).order_by(TrialRow.position), freed_files
            )

    def list_finished_full_trials(
        self, study_id: int, arm: str | None = None, point: str | None = None
    ) -> list[TrialRecord]:
        """The finished trials of a study, by position, without those of a search, whose networks are not evaluated.

        Args:
            study_id: The study.
            arm: Label of the arm; None for all arms.
            point: Point as JSON; None for all points.
        """
        return [
            trial
            for trial in self.list_trials(study_id)
            if trial.state is TrialState.FINISHED
            and not trial.is_search_phase_trial
            and trial.checkpoint is not None
            and arm in (None, trial.arm)
            and point in (None, trial.point_json)
        ]

    def list_claimable_trials(self, study_id: int) -> list[TrialRecord]:
        """The trials of a study that wait for training or evaluation, by position."""
        return self._read_trials(study_id, TrialRow.state.in_(_OPEN))

    def list_claimable_trial_ids(self, study_id: int, seeds: range | None = None) -> Sequence[int]:
        """The ids of the trials of a study that wait for training or evaluation, by position. seeds: None for all."""
        is_open = [TrialRow.study_id == study_id, TrialRow.state.in_(_OPEN)]
        if seeds is not None:
            is_open.append(TrialRow.seed.between(seeds.start, seeds.stop - 1))
        with self.database.read_session() as session:
            return session.scalars(select(TrialRow.id).where(*is_open).order_by(TrialRow.position)).all()

    def list_changed_trial_ids(self, study_id: int, after: int) -> Sequence[int]:
        """The ids of the trials that have an event with a number above `after`, by position; with 0 of every trial."""
        query = select(TrialRow.id).where(TrialRow.study_id == study_id).order_by(TrialRow.position)
        if after:
            is_new = EventRow.study_id == study_id, EventRow.number > after
            query = query.where(TrialRow.id.in_(select(EventRow.trial_id).where(*is_new)))
        with self.database.read_session() as session:
            return session.scalars(query).all()

    def list_states_of_seeds(self, study_id: int, seeds: range) -> set[TrialState]:
        """The states that trials of these seeds have."""
        query = select(TrialRow.state).where(
            TrialRow.study_id == study_id, TrialRow.seed.between(seeds.start, seeds.stop - 1)
        )
        with self.database.read_session() as session:
            return set(map(TrialState, session.scalars(query.distinct())))

    def prune_waiting_trials(self, study_id: int, reason_by_arm: Mapping[str, str]) -> None:
        """End every trial of these arms that waits for training."""
        with self.database.write_session() as session:
            session.get_one(StudyRow, study_id, with_for_update=True)
            is_waiting = TrialRow.study_id == study_id, TrialRow.state == TrialState.WAITING
            query = select(TrialRow).where(*is_waiting, TrialRow.arm.in_(reason_by_arm)).order_by(TrialRow.position)
            trials = session.scalars(query).all()
            for trial in trials:
                check_state_transition(TrialState.WAITING, TrialState.PRUNED)
                trial.state, trial.reason = TrialState.PRUNED, reason_by_arm[trial.arm]
            events = [NewEvent("trial_pruned", {"reason": trial.reason}, trial.id) for trial in trials]
            append_events(session, study_id, self.database.now(session), events, results=len(events))

    def load_trials(self, study_id: int, trial_ids: Sequence[int]) -> list[TrialRecord]:
        """Trials of a study, by position."""
        return self._read_trials(study_id, TrialRow.id.in_(trial_ids))

    def get_trial(self, trial_id: int) -> TrialRecord:
        """One trial. Raises NoResultFound where there is none."""
        with self.database.read_session() as session:
            study_id = session.get_one(TrialRow, trial_id).study_id
            (trial,) = read_trial_records(session, select_trials_with_checkpoints(study_id, TrialRow.id == trial_id))
            return trial

    def _read_trials(self, study_id: int, *conditions: ColumnElement[bool]) -> list[TrialRecord]:
        query = select_trials_with_checkpoints(study_id, *conditions).order_by(TrialRow.position)
        with self.database.read_session() as session:
            return read_trial_records(session, query)

    def list_sampled_trials_grouped_by_point(
        self, study_id: int, keys: Sequence[str] | None = None
    ) -> list[list[SampledTrial]]:
        """The trials of every sampled point, points in the order in which they were sampled.

        Args:
            study_id: The study.
            keys: Keys of the trials that are listed; None for all.
        """
        best_loss = (
            select(func.min(EvaluationRow.loss))
            .where(
                EvaluationRow.checkpoint_id == CheckpointRow.id,
                EvaluationRow.split == Split.VALIDATION,
                EvaluationRow.condition == "",
            )
            .scalar_subquery()
        )
        with self.database.read_session() as session:
            chosen = () if keys is None else (TrialRow.key.in_(keys),)
            query = select_trials_with_checkpoints(study_id, *chosen).add_columns(best_loss)
            rows = session.execute(query.order_by(TrialRow.position)).all()
            points: dict[tuple[str, str], list[SampledTrial]] = {}
            for row, checkpoint, lowest in rows:
                if row.parameters is not None:
                    trial = make_trial_record(row, checkpoint)
                    points.setdefault((trial.arm, trial.point_json), []).append(SampledTrial(trial, best_loss=lowest))
            trial_ids = [trial.trial.id for trials in points.values() for trial in trials]
            losses = _read_validation_losses_by_trial_and_epoch(session, study_id, trial_ids)
        return [
            [replace(trial, losses=losses.get(trial.trial.id, {})) for trial in trials] for trials in points.values()
        ]


def _read_validation_losses_by_trial_and_epoch(
    session: Session, study_id: int, trial_ids: list[int]
) -> dict[int, dict[int, float]]:
    """Validation losses by trial and epoch."""
    losses: dict[int, dict[int, float]] = {}
    epochs = select(EventRow).where(EventRow.study_id == study_id, EventRow.kind == "epoch")
    for event in session.scalars(epochs.where(EventRow.trial_id.in_(trial_ids)).order_by(EventRow.number)):
        losses.setdefault(event.trial_id or 0, {})[event.data["epoch"]] = event.data["validation_loss"]
    return losses
