"""Encodes outcomes and metrics of an evaluation as columns of the database, and decodes them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bln_search.core.errors import DamagedRecordError
from bln_search.core.metric_description import NO_METRICS

if TYPE_CHECKING:
    from bln_search.core.example_outcomes import ExampleOutcomes


def encode_losses_and_correctness(outcomes: ExampleOutcomes) -> tuple[bytes, bytes]:
    """Losses as deflated little-endian float32, correctness as one bit each."""
    import numpy as np  # noqa: PLC0415 - commands that read no outcomes start without NumPy

    losses = zlib.compress(np.ascontiguousarray(outcomes.losses, dtype="<f4").tobytes(), level=1)
    return losses, np.packbits(outcomes.correct).tobytes()


def decode_losses_and_correctness(losses: bytes, correct: bytes, n: int) -> ExampleOutcomes:
    """Decode the outcomes of n examples. Raises DamagedRecordError where the bytes are damaged."""
    import numpy as np  # noqa: PLC0415 - as above

    from bln_search.core.example_outcomes import ExampleOutcomes  # noqa: PLC0415 - as above

    try:
        values = np.frombuffer(zlib.decompress(losses), dtype="<f4").astype(np.float32)
    except (zlib.error, ValueError) as error:
        raise DamagedRecordError(f"stored outcomes of {n} examples are damaged: {error}") from None
    bits = np.unpackbits(np.frombuffer(correct, np.uint8), count=n).astype(np.bool_)
    return ExampleOutcomes(values, bits)


def encode_metrics(metrics: Mapping[str, float]) -> str | None:
    """A JSON object in the order of the metrics; None without metrics."""
    return json.dumps(dict(metrics), allow_nan=False) if metrics else None


def decode_metrics(text: str | None) -> Mapping[str, float]:
    """Inverse of `encode_metrics`. Evaluations of an earlier version have no metrics."""
    if text is None:
        return NO_METRICS
    metrics: dict[str, float] = json.loads(text)
    return metrics
