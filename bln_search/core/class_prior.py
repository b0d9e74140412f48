"""What is reached without looking at an example: a network that does no better has learned nothing."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Guess:
    """The same answer to every example, the shares of the classes: mean loss in nats, their entropy; and accuracy."""

    loss: float
    accuracy: float


def guess_of(counts: Collection[int]) -> Guess | None:
    """Of a split with so many examples of each class; None of fewer than two classes, where it is always right."""
    found = [count for count in counts if count]
    if len(found) < 2:
        return None
    total = sum(found)
    loss = math.fsum(count * math.log(total / count) for count in found) / total
    return Guess(loss=loss, accuracy=max(found) / total)
