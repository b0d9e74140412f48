"""Errors and losses of an arm in windows of mini-batches: how they change while a stream goes on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bln_search.core.stream_outcomes import StreamLayout, StreamRecord
from bln_search.ranking.stream_results import ConditionStart

MAX_WINDOWS = 60
"""Largest number of windows of a stream."""


@dataclass(frozen=True)
class WindowMeans:
    """Means over the examples of each window, averaged over streams.

    Attributes:
        errors: Share of wrong predictions.
        losses: Negative log-likelihood (nats); None where it is not finite.
    """

    errors: tuple[float, ...]
    losses: tuple[float | None, ...]


def choose_window(batches: int) -> int:
    """Return the number of mini-batches of a window."""
    return max(1, math.ceil(batches / MAX_WINDOWS))


def compute_window_means(records: Sequence[StreamRecord], window: int) -> WindowMeans:
    """Return the means of an arm.

    Args:
        records: Of the arm, on streams of as many mini-batches.
        window: Number of mini-batches of a window; the last one may have fewer.
    """
    errors = [_means_by_window(~record.outcomes.correct, record.layout, window) for record in records]
    losses = [_means_by_window(record.outcomes.losses, record.layout, window) for record in records]
    mean_losses = np.mean(losses, axis=0).tolist()
    return WindowMeans(
        tuple(np.mean(errors, axis=0).tolist()),
        tuple(loss if math.isfinite(loss) else None for loss in mean_losses),
    )


def find_condition_starts(layout: StreamLayout) -> tuple[ConditionStart, ...]:
    """Return where conditions begin; nothing where a mini-batch has several."""
    first = layout.condition_of[layout.starts]
    sizes = np.diff([*layout.starts, len(layout.condition_of)])
    if not (np.repeat(first, sizes) == layout.condition_of).all():
        return ()
    begins = [0, *(np.flatnonzero(np.diff(first)) + 1).tolist()]
    return tuple(ConditionStart(batch=batch, condition=layout.conditions[first[batch]]) for batch in begins)


def _means_by_window(
    values: NDArray[np.bool_] | NDArray[np.float32], layout: StreamLayout, window: int
) -> NDArray[np.float64]:
    starts = layout.starts[::window]
    sizes = np.diff([*starts, len(values)])
    means: NDArray[np.float64] = np.add.reduceat(values.astype(np.float64), starts) / sizes
    return means
