"""Precision and compilation of training, and what they do not combine with."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from bln_search.core.enums import PopulationEstimate
from bln_search.core.method import Method
from bln_search.specs.sections.model import ModelSpec


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


def check_precision_and_compilation(
    precision: TrainingPrecision,
    *,
    compiles: bool,
    fuses_norms: bool,
    method: Method,
    estimates: Collection[PopulationEstimate],
    model: ModelSpec,
) -> None:
    """Raise ValueError where an arm cannot be trained with this precision, or cannot be compiled.

    Args:
        precision: Of training.
        compiles: Whether the forward and backward pass of a training step are compiled.
        fuses_norms: Whether training steps use the fused kernels of normalization layers.
        method: Of the arm.
        estimates: Population estimates of the arm.
        model: Of the study.
    """
    is_recurrent = model.info.is_recurrent
    if precision is TrainingPrecision.BF16 and method.computes_statistics_from_weights:
        raise ValueError(
            f"training: precision: bf16 would round the statistics that {method} computes from the weights: "
            "set precision to float32 or tf32"
        )
    if precision is TrainingPrecision.BF16 and is_recurrent:
        raise ValueError(
            f"training: precision: bf16 would round the states of {model.name} at every time step: "
            "set precision to float32 or tf32"
        )
    if fuses_norms and (is_recurrent or compiles):
        reason = "the layers of recurrent models have no fused kernels" if is_recurrent else "compile fuses them itself"
        raise ValueError(f"training: fused_norms: {reason}: remove fused_norms")
    if not compiles:
        return
    if is_recurrent:
        raise ValueError(f"training: compile: {model.name} has loops over time steps: remove compile")
    if not method.description.is_compilable:
        compiled = ", ".join(method for method in Method if method.description.is_compilable)
        raise ValueError(
            f"training: compile: {method} has values that change from step to step, each of which would be compiled "
            f"anew: remove compile, or choose among {compiled}"
        )
    collected = [estimate for estimate in estimates if estimate.is_available_in_training]
    if collected:
        raise ValueError(
            f"training: compile: the population {collected[0]} is collected inside the training steps: remove compile, "
            "or set population to frozen"
        )
