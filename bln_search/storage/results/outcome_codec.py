"""Encodes per-example outcomes as bytes, and decodes them."""

from __future__ import annotations

import zlib

import numpy as np

from bln_search.core.errors import DamagedRecordError
from bln_search.core.records import ExampleOutcomes


def encode_losses_and_correctness(outcomes: ExampleOutcomes) -> tuple[bytes, bytes]:
    """Losses as deflated little-endian float32, correctness as one bit each."""
    losses = zlib.compress(np.ascontiguousarray(outcomes.losses, dtype="<f4").tobytes(), level=1)
    return losses, np.packbits(outcomes.correct).tobytes()


def decode_losses_and_correctness(losses: bytes, correct: bytes, n: int) -> ExampleOutcomes:
    """Decode the outcomes of n examples. Raises DamagedRecordError where the bytes are damaged."""
    try:
        values = np.frombuffer(zlib.decompress(losses), dtype="<f4").astype(np.float32)
    except (zlib.error, ValueError) as error:
        raise DamagedRecordError(f"stored outcomes of {n} examples are damaged: {error}") from None
    bits = np.unpackbits(np.frombuffer(correct, np.uint8), count=n).astype(np.bool_)
    return ExampleOutcomes(values, bits)
