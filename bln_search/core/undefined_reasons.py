"""Reasons why an evaluation is undefined, worded alike before and during the evaluation."""

from __future__ import annotations

BESSEL_UNDEFINED = "the factor m/(m-1) of the Bessel correction has no value for m = 1; the correction `total` has one"


def layer_without_population_reason(layer: str, population: str | None) -> str:
    """No mini-batch of a population reached a layer that the evaluated mini-batches reach."""
    return (
        f"no mini-batch of the population {population} reached the layer {layer}, which the evaluated mini-batches "
        "reach: give a population whose mini-batches reach it too"
    )


def mini_batch_exceeds_slots_reason(slots: int, batch_size: int) -> str:
    """A mini-batch has more examples than the per-slot feature population has slots."""
    return (
        f"the feature population has one value for each of {slots} slots of a mini-batch, "
        f"a mini-batch of {batch_size} has more"
    )


def sequence_exceeds_time_steps_reason(steps: int, length: int) -> str:
    """A sequence is longer than those of training, from which the population of each time step is estimated."""
    return (
        f"there are population values for {steps} time steps, a sequence of {length} has more; with "
        "longer_sequences: last_time_step later steps take those of the last one"
    )
