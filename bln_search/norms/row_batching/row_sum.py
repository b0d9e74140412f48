"""Outputs of all rows, each as the sum of a batch variant and a feature variant."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class RowSum:
    """Output of row i: batch[rows[i][0]] + feature[rows[i][1]].

    Attributes:
        batch: for each batch variant (G, N or 1, *features).
        feature: (variants, G, N, *features); None where the method has no feature statistics.
        rows: for each row, the indices of its batch variant and its feature variant.
        groups: G, the number of mini-batches.
        size: N, the number of examples in each.
        feature_shape: shape of one example.
    """

    batch: tuple[Tensor, ...]
    feature: Tensor | None
    rows: tuple[tuple[int, int], ...]
    groups: int
    size: int
    feature_shape: tuple[int, ...]

    def materialize(self) -> Tensor:
        """Return the sums of all rows, (rows·G·N, *features)."""
        shape = (len(self.rows), self.groups, self.size, *self.feature_shape)
        out = torch.empty(shape, dtype=self.batch[0].dtype, device=self.batch[0].device)
        for start, stop, variant, indices in _group_adjacent_rows(self.rows):
            if self.feature is None:
                out[start:stop] = self.batch[variant]
            else:
                first, last = indices[0], indices[-1]
                is_contiguous = indices == list(range(first, last + 1))
                feature = self.feature[first : last + 1] if is_contiguous else self.feature[indices]
                torch.add(self.batch[variant], feature, out=out[start:stop])
        return out.view(len(self.rows) * self.groups * self.size, *self.feature_shape)


@dataclass(frozen=True)
class ClassMajorRowSum:
    """Logits of all rows with classes first: row i is batch[rows[i][0]] + feature[rows[i][1]].

    Operations over examples then run over contiguous memory.

    Attributes:
        batch: for each batch variant (K, N, G).
        feature: (variants, K, N, G).
        rows: for each row, the indices of its batch variant and its feature variant.
    """

    batch: tuple[Tensor, ...]
    feature: Tensor
    rows: tuple[tuple[int, int], ...]


def _group_adjacent_rows(rows: tuple[tuple[int, int], ...]) -> list[tuple[int, int, int, list[int]]]:
    """Return runs of rows with the same batch variant: (start, stop, batch variant, feature variants)."""
    runs: list[tuple[int, int, int, list[int]]] = []
    for row, (batch, feature) in enumerate(rows):
        if runs and runs[-1][2] == batch:
            start, _, _, indices = runs[-1]
            runs[-1] = (start, row + 1, batch, [*indices, feature])
        else:
            runs.append((row, row + 1, batch, [feature]))
    return runs
