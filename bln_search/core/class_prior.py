"""The class-prior baseline: predicting the class frequencies for every example."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class ClassPriorBaseline:
    """Mean loss (nats; the entropy of the class frequencies) and accuracy (fraction) of the baseline."""

    loss: float
    accuracy: float


def compute_class_prior_baseline(counts: Collection[int]) -> ClassPriorBaseline | None:
    """Baseline of a split.

    Args:
        counts: Number of examples of each class.

    Returns:
        None for fewer than two classes with examples, where the baseline is always correct.
    """
    positive = [count for count in counts if count]
    if len(positive) < 2:
        return None
    total = sum(positive)
    loss = math.fsum(count * math.log(total / count) for count in positive) / total
    return ClassPriorBaseline(loss=loss, accuracy=max(positive) / total)
