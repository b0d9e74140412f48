"""Arms of adaptation on the streams of trained networks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import select

from bln_search.core.stream_outcomes import StreamRecord
from bln_search.specs.records import encode_point_as_json
from bln_search.storage.database import Database
from bln_search.storage.results.stream_codec import decode_layout, make_stream_record
from bln_search.storage.tables import CheckpointRow, StreamOutcomesRow, StreamRow, TrialRow


@dataclass(frozen=True)
class TrialStream:
    """An arm of adaptation on a stream, with the network of a trial.

    Attributes:
        arm: Label of the arm of the study.
        point: Point of the search space as JSON; empty without a space.
        record: The arm of adaptation.
    """

    arm: str
    point: str
    record: StreamRecord


class StreamRepository:
    """Reads what the attempts of trials reported."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def has_streams(self, study_id: int) -> bool:
        """Whether a network of the study has adapted to a stream."""
        query = select(StreamRow.number).join(CheckpointRow, CheckpointRow.id == StreamRow.checkpoint_id)
        query = query.join(TrialRow, TrialRow.id == CheckpointRow.trial_id).where(TrialRow.study_id == study_id)
        with self.database.read_session() as session:
            return session.scalar(query.limit(1)) is not None

    def iter_trial_streams(self, study_id: int) -> Iterator[TrialStream]:
        """The streams of a study by trial, order and arm, loaded one stream of a trial at a time.

        Raises:
            DamagedRecordError: The bytes of a stream are damaged.
        """
        query = (
            select(TrialRow.arm, TrialRow.parameters, TrialRow.seed, StreamRow.checkpoint_id, StreamRow.number)
            .join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
            .join(StreamRow, StreamRow.checkpoint_id == CheckpointRow.id)
            .where(TrialRow.study_id == study_id)
            .order_by(TrialRow.position, StreamRow.number)
        )
        with self.database.read_session() as session:
            keys = session.execute(query).all()
        for arm, parameters, seed, checkpoint_id, number in keys:
            point = encode_point_as_json(parameters)
            for record in self._load_records(checkpoint_id, number, seed):
                yield TrialStream(arm, point, record)

    def _load_records(self, checkpoint_id: int, number: int, seed: int) -> list[StreamRecord]:
        is_stream = StreamOutcomesRow.checkpoint_id == checkpoint_id, StreamOutcomesRow.number == number
        query = select(StreamOutcomesRow).where(*is_stream).order_by(StreamOutcomesRow.position)
        with self.database.read_session() as session:
            stream = session.get(StreamRow, (checkpoint_id, number))
            if stream is None:  # its study was deleted meanwhile
                return []
            layout = decode_layout(stream.layout)
            return [make_stream_record(row, stream, layout, seed) for row in session.scalars(query)]
