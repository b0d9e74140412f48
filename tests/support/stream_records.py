"""Records of arms of adaptation on small streams."""

from __future__ import annotations

import numpy as np

from bln_search.core.stream_outcomes import StreamLayout, StreamOutcomes, StreamRecord
from bln_search.core.streams import SelectionData


def make_stream_record(arm="none F", seed=0, order=0, *, n=24, error=0.25, end="", **options):
    """An arm on a stream of two conditions in mini-batches of four, wrong on about a share `error` of the examples."""
    generator = np.random.default_rng([seed, order, len(arm)])
    correct = generator.random(n) >= error
    losses = generator.exponential(1, n).astype(np.float32)
    if end:
        losses[n // 2 :], correct[n // 2 :] = np.inf, False
    arrivals = np.random.default_rng([seed, order])
    layout = StreamLayout(
        ("noise", "fog"),
        np.repeat(np.array([0, 1]), n // 2),
        np.concatenate([arrivals.permutation(n // 2) for _ in range(2)]),
        np.arange(0, n, 4),
    )
    outcomes = StreamOutcomes(
        losses,
        correct,
        generator.random(n).astype(np.float32),
        generator.random(n).astype(np.float32),
        end,
        n // 4 // (2 if end else 1),
        0.5,
    )
    selected_on = options.pop("selected_on", SelectionData.FIXED)
    return StreamRecord(arm, seed, order, layout, outcomes, 4, selected_on, options)


def make_stream_records(seed, arms=("none T", "none F"), orders=2, **options):
    """Every arm on every order."""
    return tuple(make_stream_record(arm, seed, order, **options) for order in range(orders) for arm in arms)
