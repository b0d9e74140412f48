"""Encodes arms of adaptation on streams as columns of the database, and decodes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import delete
from sqlalchemy.orm import Session

from bln_search.core.errors import DamagedRecordError
from bln_search.core.stream_outcomes import StreamLayout, StreamOutcomes, StreamRecord
from bln_search.core.streams import SelectionData
from bln_search.storage.bulk_insert import insert_rows
from bln_search.storage.results.array_codec import decode_arrays, encode_arrays
from bln_search.storage.tables import StreamOutcomesRow, StreamRow

_LAYOUT = ("condition_of", "example_of", "starts")
_OUTCOMES = ("losses", "brier", "confidences")


def write_streams(session: Session, streams: Mapping[int, Sequence[StreamRecord]]) -> None:
    """Store the streams of checkpoints, by their ids, in place of earlier ones."""
    session.execute(delete(StreamRow).where(StreamRow.checkpoint_id.in_(streams)))
    layouts = {
        (checkpoint_id, record.order): record for checkpoint_id, records in streams.items() for record in records
    }
    insert_rows(
        session,
        StreamRow,
        [
            {"checkpoint_id": checkpoint_id, "number": number, "classes": record.classes}
            | {"layout": _encode_layout(record.layout)}
            for (checkpoint_id, number), record in layouts.items()
        ],
    )
    insert_rows(
        session,
        StreamOutcomesRow,
        [
            {"checkpoint_id": checkpoint_id, "number": record.order, "position": position}
            | _make_outcomes_column_values(record)
            for checkpoint_id, records in streams.items()
            for position, record in enumerate(records)
        ],
    )


def make_stream_record(row: StreamOutcomesRow, stream: StreamRow, layout: StreamLayout, seed: int) -> StreamRecord:
    """The record of a row. Raises DamagedRecordError where its bytes are damaged."""
    arrays = decode_arrays(row.outcomes)
    try:
        correct = np.unpackbits(arrays["correct"], count=row.n).astype(np.bool_)
        values = {name: arrays[name].astype(np.float32) for name in _OUTCOMES}
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedRecordError(f"stored outcomes of a stream are damaged: {error}") from None
    return StreamRecord(
        arm=row.arm,
        seed=seed,
        order=row.number,
        layout=layout,
        outcomes=StreamOutcomes(correct=correct, end=row.reason, batches=row.batches, seconds=row.seconds, **values),
        classes=stream.classes,
        selected_on=SelectionData(row.selected_on),
        options=row.options,
    )


def decode_layout(packed: bytes) -> StreamLayout:
    """The layout of a stream. Raises DamagedRecordError where the bytes are damaged."""
    arrays = decode_arrays(packed)
    try:
        return StreamLayout(
            tuple(str(name) for name in arrays["conditions"]),
            **{name: arrays[name].astype(np.int64) for name in _LAYOUT},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedRecordError(f"the stored layout of a stream is damaged: {error}") from None


def _encode_layout(layout: StreamLayout) -> bytes:
    arrays: dict[str, NDArray[Any]] = {name: getattr(layout, name).astype(np.int32) for name in _LAYOUT}
    return encode_arrays({**arrays, "conditions": np.array(layout.conditions, dtype=np.str_)})


def _make_outcomes_column_values(record: StreamRecord) -> dict[str, Any]:
    outcomes = record.outcomes
    loss = float(outcomes.losses.mean(dtype=np.float64))
    arrays: dict[str, NDArray[Any]] = {name: getattr(outcomes, name).astype(np.float32) for name in _OUTCOMES}
    return {
        "arm": record.arm,
        "n": len(outcomes.losses),
        "error": outcomes.error,
        "loss": loss if math.isfinite(loss) else None,
        "reason": outcomes.end,
        "batches": outcomes.batches,
        "seconds": outcomes.seconds,
        "selected_on": record.selected_on.value,
        "options": dict(record.options),
        "outcomes": encode_arrays({**arrays, "correct": np.packbits(outcomes.correct)}),
    }
