"""Finds the network that the export of a row contains."""

from __future__ import annotations

from sqlalchemy import select

from bln_search.core.enums import Split
from bln_search.core.errors import ExportError
from bln_search.core.records import RowKey
from bln_search.core.states import EvaluationState
from bln_search.specs.records import TrialRecord, encode_point_as_json
from bln_search.storage.database import Database
from bln_search.storage.freed_files import read_freed_times_by_file
from bln_search.storage.tables import CheckpointRow, EvaluationRow, TrialRow
from bln_search.storage.trials.records import make_trial_record


class ExportTrialFinder:
    """Finds the networks of rows."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def get_trial_to_export(self, study_id: int, row: RowKey, seed: int | None = None) -> TrialRecord:
        """The trial of a row with this seed; by default the one with the lowest validation loss.

        Raises ExportError if the row has no such seed, or if the network was removed to free disk space.
        """
        losses = self._read_losses_and_trial_ids_by_seed(study_id, row)
        if not losses:
            raise ExportError(f"the row {row.arm_configuration_and_estimate_label} has no measured network yet")
        if seed is None:
            seed = min(losses, key=lambda candidate: (losses[candidate][0], candidate))
        if seed not in losses:
            seeds = ", ".join(str(available) for available in sorted(losses))
            raise ExportError(f"this row has no result of seed {seed}; it has seeds {seeds}")
        return self._get_trial(losses[seed][1])

    def _read_losses_and_trial_ids_by_seed(self, study_id: int, row: RowKey) -> dict[int, tuple[float, int]]:
        """Validation loss on clean images and id of the trial, by seed."""
        columns = (TrialRow.seed, TrialRow.parameters, EvaluationRow.loss, TrialRow.id)
        query = select(*columns).join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
        query = query.join(EvaluationRow, EvaluationRow.checkpoint_id == CheckpointRow.id).where(
            TrialRow.study_id == study_id,
            TrialRow.arm == row.arm,
            EvaluationRow.configuration == row.configuration.code,
            EvaluationRow.estimate == (row.estimate or ""),
            EvaluationRow.batch_size == row.batch_size,
            EvaluationRow.split == Split.VALIDATION,
            EvaluationRow.condition == "",
            EvaluationRow.state == EvaluationState.MEASURED,
        )
        with self.database.read_session() as session:
            return {
                seed: (loss, trial_id)
                for seed, parameters, loss, trial_id in session.execute(query)
                if loss is not None and encode_point_as_json(parameters) == row.point
            }

    def _get_trial(self, trial_id: int) -> TrialRecord:
        query = select(TrialRow, CheckpointRow).join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
        with self.database.read_session() as session:
            row, checkpoint = session.execute(query.where(TrialRow.id == trial_id)).one()
            trial = make_trial_record(row, checkpoint, read_freed_times_by_file(session, row.study_id))
        if trial.freed_at is not None:
            raise ExportError(
                f"the network of seed {trial.seed} was removed on {trial.freed_at:%Y-%m-%d} to free disk space: "
                "train it again with `bln-search run` in another home, or export the recommended row"
            )
        return trial
