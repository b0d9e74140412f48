"""Why a configuration has no value: one wording, whether it is foreseen or met."""

from __future__ import annotations

BESSEL = "the factor m/(m-1) of the Bessel correction has no value for m = 1; the correction `total` has one"


def more_than_slots(slots: int, batch_size: int) -> str:
    """A mini-batch with more examples than there are feature population values, kept one a slot."""
    return (
        f"the feature population has one value for each of {slots} slots of a mini-batch, "
        f"a mini-batch of {batch_size} has more"
    )
