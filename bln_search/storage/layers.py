"""Searches of per-layer configurations: how far they are, and what they found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from bln_search.core.errors import DamagedRecordError, DataError
from bln_search.core.layer_search_record import LayerSearchRecord, LayerSums
from bln_search.specs.layer_search import LayersSpec
from bln_search.storage.engine import reading, writing
from bln_search.storage.evaluations import written_point
from bln_search.storage.layer_records import pack_outcomes, pack_sums, read_record, unpack_sums, write_body
from bln_search.storage.tables import CheckpointRow, LayerSearchRow, TrialRow


@dataclass(frozen=True)
class StoredLayerSearch:
    """A finished search of the network of a trial, and when it ended."""

    arm: str
    point: str
    seed: int
    spec: LayersSpec
    record: LayerSearchRecord
    made_at: datetime


def digest_of(asked: LayersSpec) -> str:
    """What tells one question from another."""
    written = json.dumps(asked.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()


def is_searched(engine: Engine, trial_id: int, asked: LayersSpec) -> bool:
    """Is that question about the trial's network answered?"""
    with reading(engine) as session:
        query = select(LayerSearchRow.checkpoint_id).join(
            CheckpointRow, CheckpointRow.id == LayerSearchRow.checkpoint_id
        )
        answered = LayerSearchRow.body.is_not(None), LayerSearchRow.asked == digest_of(asked)
        return session.scalar(query.where(CheckpointRow.trial_id == trial_id, *answered)) is not None


def find_progress(engine: Engine, trial_id: int, asked: LayersSpec) -> tuple[LayerSums, int] | None:
    """The sums of an interrupted enumeration and how many mini-batches are in them; None where there are none."""
    with reading(engine) as session:
        row = _row(session, trial_id)
        if row is None or row.body is not None or row.sums is None or row.asked != digest_of(asked):
            return None
        return unpack_sums(row.sums), row.done


def keep_progress(
    engine: Engine, trial_id: int, sha256: str, asked: LayersSpec, sums: LayerSums, done: int, now: datetime
) -> None:
    """Write down how far an enumeration is; nothing where another worker is further, or done.

    Raises DataError where the trial has another checkpoint by now.
    """
    _write(engine, trial_id, sha256, asked, now, done=done, body=None, sums=pack_sums(sums), outcomes=None)


def keep_search(
    engine: Engine, trial_id: int, sha256: str, asked: LayersSpec, record: LayerSearchRecord, now: datetime
) -> None:
    """Write down what was found, in place of an earlier search. Raises DataError as `keep_progress`."""
    _write(
        engine,
        trial_id,
        sha256,
        asked,
        now,
        done=0,
        body=write_body(record),
        sums=pack_sums(record.sums),
        outcomes=pack_outcomes(record),
    )


def layer_searches(engine: Engine, study_id: int) -> Iterator[StoredLayerSearch]:
    """The finished searches of a study, in the order of its trials, one at a time."""
    with reading(engine) as session:
        query = (
            select(TrialRow.id)
            .join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
            .join(LayerSearchRow, LayerSearchRow.checkpoint_id == CheckpointRow.id)
            .where(TrialRow.study_id == study_id, LayerSearchRow.body.is_not(None))
            .order_by(TrialRow.position)
        )
        found = list(session.scalars(query))
    for trial_id in found:
        one = _stored(engine, trial_id)
        if one is not None:
            yield one


def _stored(engine: Engine, trial_id: int) -> StoredLayerSearch | None:
    with reading(engine) as session:
        trial, row = session.get(TrialRow, trial_id), _row(session, trial_id)
        if trial is None or row is None or row.body is None or row.sums is None or row.outcomes is None:
            return None
        try:
            spec = LayersSpec.model_validate_json(row.spec)
        except ValidationError as error:
            raise DamagedRecordError(f"a stored per-layer search is damaged: {error}") from None
        record = read_record(row.body, row.sums, row.outcomes)
        return StoredLayerSearch(trial.arm, written_point(trial.parameters), trial.seed, spec, record, row.made_at)


def _row(session: Session, trial_id: int) -> LayerSearchRow | None:
    query = select(LayerSearchRow).join(CheckpointRow, CheckpointRow.id == LayerSearchRow.checkpoint_id)
    return session.scalars(query.where(CheckpointRow.trial_id == trial_id)).one_or_none()


def _write(
    engine: Engine,
    trial_id: int,
    sha256: str,
    asked: LayersSpec,
    now: datetime,
    *,
    done: int,
    body: str | None,
    sums: bytes,
    outcomes: bytes | None,
) -> None:
    with writing(engine) as session:
        wanted = select(CheckpointRow.id).where(CheckpointRow.trial_id == trial_id, CheckpointRow.sha256 == sha256)
        checkpoint = session.scalars(wanted).one_or_none()
        if checkpoint is None:
            raise DataError("a network was trained anew or deleted while its layers were searched: search again")
        present = session.get(LayerSearchRow, checkpoint, with_for_update=True)
        same = present is not None and present.asked == digest_of(asked)
        if body is None and present is not None and same and (present.body is not None or present.done > done):
            return  # another worker is ahead
        session.merge(
            LayerSearchRow(
                checkpoint_id=checkpoint,
                asked=digest_of(asked),
                spec=asked.model_dump_json(),
                done=done,
                body=body,
                sums=sums,
                outcomes=outcomes,
                made_at=now,
            )
        )
