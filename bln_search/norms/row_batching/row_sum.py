"""Outputs of all rows, each as the sum of a batch variant and a feature variant."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bln_search.norms.row_batching.fast_tanh import (
    PIECE,
    is_tanh_by_sigmoid_accurate,
    is_tanh_by_sigmoid_faster,
    replace_by_tanh_of_half,
    sample_example_indices,
)


@dataclass(frozen=True)
class RowOutputsAsSums:
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

    def materialize_tanh(self) -> Tensor:
        """Return tanh of the sums of all rows, (rows·G·N, *features), in pieces that stay in the cache."""
        if (
            self.feature is None
            or not is_tanh_by_sigmoid_faster(self.feature)
            or not is_tanh_by_sigmoid_accurate(self._sample_of_rows(self.feature))
        ):
            return torch.tanh(self.materialize())
        shape = (self.groups, self.size, *self.feature_shape)
        batch = [(term * 2).expand(shape) for term in self.batch]
        feature = (self.feature * 2).expand(-1, *shape)
        out = feature.new_empty(len(self.rows), *shape)
        step = max(1, PIECE // max(1, feature[0, 0].numel()))
        for row, (batch_variant, feature_variant) in enumerate(self.rows):
            for start in range(0, self.groups, step):
                piece = out[row, start : start + step]
                terms = batch[batch_variant][start : start + step], feature[feature_variant, start : start + step]
                replace_by_tanh_of_half(torch.add(*terms, out=piece))
        return out.view(len(self.rows) * self.groups * self.size, *self.feature_shape)

    def _sample_of_rows(self, feature: Tensor) -> Tensor:
        """Return some examples of each row, (rows·examples, *features); two where each has many values of a channel."""
        indices = sample_example_indices(self.groups * self.size, 32 if len(self.feature_shape) == 1 else 2)
        groups, examples = zip(*(divmod(index, self.size) for index in indices), strict=True)
        shape = (self.groups, self.size, *self.feature_shape)
        batch = torch.stack([term.expand(shape)[groups, examples] for term in self.batch])
        features = feature[:, groups, examples]
        batch_variants, feature_variants = (list(variants) for variants in zip(*self.rows, strict=True))
        sample: Tensor = batch[batch_variants] + features[feature_variants]
        return sample.flatten(0, 1)


@dataclass(frozen=True)
class ClassMajorLogitsAsSums:
    """Logits of all rows with classes first: row i is batch[rows[i][0]] + feature[rows[i][1]].

    Operations over examples then run over contiguous memory.

    Attributes:
        batch: for each batch variant (K, G, N).
        feature: (variants, K, G, N).
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
