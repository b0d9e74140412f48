"""The outputs of a layer under all rows, each as the sum of a batch variant and a feature variant."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PairedSum:
    """Row i is batch[rows[i][0]] + feature[rows[i][1]].

    batch: each (G, N or 1, *features). feature: (variants, G, N, *features), or None where the method has no feature
    statistics. rows: for each row, its batch variant and its feature variant. groups: G; size: N.
    """

    batch: tuple[Tensor, ...]
    feature: Tensor | None
    rows: tuple[tuple[int, int], ...]
    groups: int
    size: int
    feature_shape: tuple[int, ...]

    def materialized(self) -> Tensor:
        """(rows·G·N, *features): the sum of every row."""
        shape = (len(self.rows), self.groups, self.size, *self.feature_shape)
        out = torch.empty(shape, dtype=self.batch[0].dtype, device=self.batch[0].device)
        for start, stop, variant, indices in _runs(self.rows):
            if self.feature is None:
                out[start:stop] = self.batch[variant]
            else:
                first, last = indices[0], indices[-1]
                run = indices == list(range(first, last + 1))
                chosen = self.feature[first : last + 1] if run else self.feature[indices]
                torch.add(self.batch[variant], chosen, out=out[start:stop])
        return out.view(len(self.rows) * self.groups * self.size, *self.feature_shape)


@dataclass(frozen=True)
class ByClass:
    """The same of logits, with classes first: row i is batch[rows[i][0]] + feature[rows[i][1]].

    batch: each (K, N, G). feature: (variants, K, N, G). What runs over examples runs over neighbours in memory.
    """

    batch: tuple[Tensor, ...]
    feature: Tensor
    rows: tuple[tuple[int, int], ...]


def _runs(rows: tuple[tuple[int, int], ...]) -> list[tuple[int, int, int, list[int]]]:
    """Stretches of rows with the same batch variant: (start, stop, batch variant, feature variants)."""
    runs: list[tuple[int, int, int, list[int]]] = []
    for position, (batch, feature) in enumerate(rows):
        if runs and runs[-1][2] == batch:
            start, _, _, indices = runs[-1]
            runs[-1] = (start, position + 1, batch, [*indices, feature])
        else:
            runs.append((position, position + 1, batch, [feature]))
    return runs
