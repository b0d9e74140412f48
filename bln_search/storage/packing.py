"""Per-example outcomes as bytes and back."""

from __future__ import annotations

import zlib

import numpy as np

from bln_search.core.errors import DamagedRecordError
from bln_search.core.records import Outcomes


def pack(outcomes: Outcomes) -> tuple[bytes, bytes]:
    """Losses as deflated little-endian float32, correctness one bit each."""
    losses = zlib.compress(np.ascontiguousarray(outcomes.losses, dtype="<f4").tobytes(), level=1)
    return losses, np.packbits(outcomes.correct).tobytes()


def unpack(losses: bytes, correct: bytes, n: int) -> Outcomes:
    """What `pack` packed, n examples. Raises DamagedRecordError where it is damaged."""
    try:
        values = np.frombuffer(zlib.decompress(losses), dtype="<f4").astype(np.float32)
    except (zlib.error, ValueError) as error:
        raise DamagedRecordError(f"stored outcomes of {n} examples are damaged: {error}") from None
    bits = np.unpackbits(np.frombuffer(correct, np.uint8), count=n).astype(np.bool_)
    return Outcomes(values, bits)
