"""Searches of per-layer configurations: progress and results."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from bln_search.core.errors import DamagedRecordError, DataError
from bln_search.core.layer_search_record import FoldScoreSums, LayerSearchRecord
from bln_search.ranking.per_layer import NetworkLayerSearch
from bln_search.specs.records import encode_point_as_json
from bln_search.specs.sections.layer_search import LayerSearchSpec
from bln_search.storage.database import Database
from bln_search.storage.results.layer_search_codec import (
    decode_fold_sums,
    decode_record,
    encode_fold_sums,
    encode_record_as_json,
    encode_record_outcomes,
)
from bln_search.storage.tables import CheckpointRow, LayerSearchRow, TrialRow


class LayerSearchRepository:
    """Stores one search for each trained network."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def is_search_finished(self, trial_id: int, spec: LayerSearchSpec) -> bool:
        """Whether the search `spec` of the trial's network is finished."""
        query = select(LayerSearchRow.checkpoint_id).join(
            CheckpointRow, CheckpointRow.id == LayerSearchRow.checkpoint_id
        )
        has_record = LayerSearchRow.body.is_not(None), LayerSearchRow.spec_digest == spec.digest
        with self.database.read_session() as session:
            return session.scalar(query.where(CheckpointRow.trial_id == trial_id, *has_record)) is not None

    def find_saved_sums(self, trial_id: int, spec: LayerSearchSpec) -> tuple[FoldScoreSums, int] | None:
        """The sums of an interrupted enumeration and the number of mini-batches in them; None where there are none."""
        with self.database.read_session() as session:
            row = _find_layer_search_row(session, trial_id)
            if row is None or row.body is not None or row.sums is None or row.spec_digest != spec.digest:
                return None
            return decode_fold_sums(row.sums), row.done

    def save_progress(self, trial_id: int, sha256: str, spec: LayerSearchSpec, sums: FoldScoreSums, done: int) -> None:
        """Save the progress of an enumeration, unless another worker has made more progress.

        Args:
            trial_id: The trial of the network.
            sha256: SHA-256 of the checkpoint that is searched.
            spec: The search.
            sums: Sums over the mini-batches that are done.
            done: Number of these mini-batches.

        Raises:
            DataError: the trial has another checkpoint by now.
        """
        self._save_row_unless_overtaken(
            trial_id, sha256, spec, done=done, body=None, sums=encode_fold_sums(sums), outcomes=None
        )

    def save_record(self, trial_id: int, sha256: str, spec: LayerSearchSpec, record: LayerSearchRecord) -> None:
        """Save the result of a search in place of an earlier one; arguments and errors as of `save_progress`."""
        body, outcomes = encode_record_as_json(record), encode_record_outcomes(record)
        self._save_row_unless_overtaken(
            trial_id, sha256, spec, done=0, body=body, sums=encode_fold_sums(record.sums), outcomes=outcomes
        )

    def iter_finished_searches(self, study_id: int) -> Iterator[NetworkLayerSearch]:
        """The finished searches of a study in the order of its trials, loaded one at a time."""
        query = (
            select(TrialRow.id)
            .join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
            .join(LayerSearchRow, LayerSearchRow.checkpoint_id == CheckpointRow.id)
            .where(TrialRow.study_id == study_id, LayerSearchRow.body.is_not(None))
            .order_by(TrialRow.position)
        )
        with self.database.read_session() as session:
            trial_ids = list(session.scalars(query))
        for trial_id in trial_ids:
            search = self._find_finished_search(trial_id)
            if search is not None:
                yield search

    def _find_finished_search(self, trial_id: int) -> NetworkLayerSearch | None:
        with self.database.read_session() as session:
            trial, row = session.get(TrialRow, trial_id), _find_layer_search_row(session, trial_id)
            if trial is None or row is None or row.body is None or row.sums is None or row.outcomes is None:
                return None
            try:
                spec = LayerSearchSpec.model_validate_json(row.spec)
            except ValidationError as error:
                raise DamagedRecordError(f"a stored per-layer search is damaged: {error}") from None
            record = decode_record(row.body, row.sums, row.outcomes)
            return NetworkLayerSearch(
                trial.arm, encode_point_as_json(trial.parameters), trial.seed, spec, record, row.made_at
            )

    def _save_row_unless_overtaken(
        self,
        trial_id: int,
        sha256: str,
        spec: LayerSearchSpec,
        *,
        done: int,
        body: str | None,
        sums: bytes,
        outcomes: bytes | None,
    ) -> None:
        digest = spec.digest
        with self.database.write_session() as session:
            query = select(CheckpointRow.id).where(CheckpointRow.trial_id == trial_id, CheckpointRow.sha256 == sha256)
            checkpoint_id = session.scalars(query).one_or_none()
            if checkpoint_id is None:
                raise DataError("a network was trained again or deleted while its layers were searched: search again")
            present = session.get(LayerSearchRow, checkpoint_id, with_for_update=True)
            is_same_search = present is not None and present.spec_digest == digest
            if (
                body is None
                and present is not None
                and is_same_search
                and (present.body is not None or present.done > done)
            ):
                return  # another worker has made more progress
            session.merge(
                LayerSearchRow(
                    checkpoint_id=checkpoint_id,
                    spec_digest=digest,
                    spec=spec.model_dump_json(),
                    done=done,
                    body=body,
                    sums=sums,
                    outcomes=outcomes,
                    made_at=self.database.now(session),
                )
            )


def _find_layer_search_row(session: Session, trial_id: int) -> LayerSearchRow | None:
    query = select(LayerSearchRow).join(CheckpointRow, CheckpointRow.id == LayerSearchRow.checkpoint_id)
    return session.scalars(query.where(CheckpointRow.trial_id == trial_id)).one_or_none()
