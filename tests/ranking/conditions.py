"""Outcomes of rows under several conditions, drawn from known distributions."""

from __future__ import annotations

import numpy as np

from bln_search.ranking.paired import OutcomeTable


def draw_conditions(rng, sizes, means, *, seeds=1, shared=0.0, of_seed=0.0, noise=1.0, residual=0.3):
    """One table for each condition.

    Args:
        rng: Generator.
        sizes: Number of examples of each condition.
        means: True loss of each row in each condition, (rows, conditions).
        seeds: Number of seeds.
        shared: Deviation of an effect of row and example index that all conditions share; sizes are equal then.
        of_seed: Deviation of an effect of row and seed that all conditions share.
        noise: Deviation of an effect of row and example, for each condition.
        residual: Deviation of the rest.
    """
    means = np.asarray(means, float)
    rows = len(means)
    of_index = shared * rng.normal(size=(1, rows, max(sizes)))
    seed_effects = of_seed * rng.normal(size=(seeds, rows, 1))
    tables = []
    for condition, size in enumerate(sizes):
        losses = (
            means[:, condition][None, :, None]
            + of_index[:, :, :size]
            + seed_effects
            + noise * rng.normal(size=(1, rows, size))
            + residual * rng.normal(size=(seeds, rows, size))
        )
        tables.append(OutcomeTable(losses.astype(np.float32), losses < 0))
    return tables
