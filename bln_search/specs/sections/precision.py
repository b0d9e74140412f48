"""Precision and compilation of training, and what they do not combine with."""

from __future__ import annotations

from enum import StrEnum


class TrainingPrecision(StrEnum):
    """Precision of training. Normalization layers, losses and the optimizer always compute in float32.

    Members:
        FLOAT32: IEEE single precision.
        TF32: Matrix products and convolutions on a GPU read their inputs with 10 bits of mantissa; on a CPU as float32.
        BF16: Matrix products and convolutions in bfloat16, by torch.autocast.
    """

    FLOAT32 = "float32"
    TF32 = "tf32"
    BF16 = "bf16"
