"""Outputs of all rows, each as the sum of a batch variant and a feature variant."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from bln_search.norms.row_batching.elementwise import IDENTITY, ElementwiseForm, sample_indices

_PIECE = 2**17
"""Values of a row that are computed together on a CPU, so that intermediate results stay in the cache."""

_MOST_ROWS = 4
"""Rows of a piece."""

_SAMPLED_MINI_BATCHES, _SAMPLED_EXAMPLES = 4, 8
"""Mini-batches, and examples of each, from which the size of channels is estimated; of images, two and one."""


@dataclass(frozen=True, kw_only=True)
class SumsOfRows(ABC):
    """Outputs of all rows.

    Attributes:
        rows: for each row, the indices of its batch variant and its feature variant.
        groups: G, the number of mini-batches.
        size: N, the number of examples in each.
        feature_shape: shape of one example.
    """

    rows: tuple[tuple[int, int], ...]
    groups: int
    size: int
    feature_shape: tuple[int, ...]

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """Of the outputs."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Of the outputs."""

    @abstractmethod
    def compute_variants(self, start: int, stop: int) -> RowOutputsAsSums:
        """Return the variants for the mini-batches from `start` to before `stop`."""

    def materialize(self, form: ElementwiseForm = IDENTITY, *, pools: bool = False) -> Tensor:
        """Return an elementwise function of the outputs of all rows, (rows·G·N, *features).

        Args:
            form: the function.
            pools: whether to return means of its values in squares of 2×2, (rows·G·N, C, H // 2, W // 2).
        """
        form = form.select_for(self._sample)
        shape = pooled_shape(self.feature_shape) if pools else self.feature_shape
        out = torch.empty(len(self.rows), self.groups, self.size, *shape, dtype=self.dtype, device=self.device)
        step, most_rows = max(1, self.groups), max(1, len(self.rows))
        if self.device.type == "cpu":
            step, most_rows = max(1, _PIECE // max(1, self.size * prod(self.feature_shape))), _MOST_ROWS
        for start in range(0, self.groups, step):
            variants = self.compute_variants(start, min(start + step, self.groups)).scaled(form.scale)
            for first, stop in _iter_runs(self.rows, most_rows):
                target = out[first:stop, start : start + step]
                values = variants.sum_rows(first, stop, None if pools else target)
                form.replace(values)
                form.finish(_average_squares(values, target) if pools else values)
        return out.flatten(0, 2)

    def _sample(self) -> Tensor:
        """Return some examples of each row, (rows·examples, *features)."""
        is_image = len(self.feature_shape) > 1
        sample = []
        for group in sample_indices(self.groups, 2 if is_image else _SAMPLED_MINI_BATCHES):
            values = self.compute_variants(group, group + 1).sum_rows(0, len(self.rows), None)
            sample.append(values[:, 0, sample_indices(self.size, 1 if is_image else _SAMPLED_EXAMPLES)])
        return torch.cat(sample, 1).flatten(0, 1) if sample else torch.empty(0)


@dataclass(frozen=True, kw_only=True)
class RowOutputsAsSums(SumsOfRows):
    """Output of row i: batch[rows[i][0]] + feature[rows[i][1]].

    Attributes:
        batch: for each batch variant (G or 1, N or 1, *features).
        feature: (variants, G, N, *features); None where the method has no feature statistics.
    """

    batch: tuple[Tensor, ...]
    feature: Tensor | None

    @property
    def dtype(self) -> torch.dtype:
        """Common to all variants."""
        return self.batch[0].dtype

    @property
    def device(self) -> torch.device:
        """Common to all variants."""
        return self.batch[0].device

    def compute_variants(self, start: int, stop: int) -> RowOutputsAsSums:
        """Return the variants for the mini-batches from `start` to before `stop`."""
        batch = tuple(term[start:stop] if len(term) > 1 else term for term in self.batch)
        feature = None if self.feature is None else self.feature[:, start:stop]
        return replace(self, batch=batch, feature=feature, groups=stop - start)

    def scaled(self, factor: float) -> RowOutputsAsSums:
        """Return the sums times a factor."""
        if factor == 1.0:
            return self
        feature = None if self.feature is None else self.feature * factor
        return replace(self, batch=tuple(term * factor for term in self.batch), feature=feature)

    def sum_rows(self, first: int, stop: int, out: Tensor | None) -> Tensor:
        """Return the rows from `first` to before `stop`, (rows, G, N, *features).

        Args:
            first: first row.
            stop: the one after the last.
            out: where to write them; None for new memory.
        """
        if out is None:
            shape = stop - first, self.groups, self.size, *self.feature_shape
            out = torch.empty(shape, dtype=self.dtype, device=self.device)
        for begin, end in _iter_runs(self.rows[first:stop], stop - first):
            run = self.rows[first + begin : first + end]
            batch, features = self.batch[run[0][0]], [feature for _, feature in run]
            if self.feature is None:
                out[begin:end] = batch
                continue
            is_contiguous = features == list(range(features[0], features[-1] + 1))
            selected = self.feature[features[0] : features[-1] + 1] if is_contiguous else self.feature[features]
            torch.add(batch, selected, out=out[begin:end])
        return out


def pooled_shape(feature_shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return the shape of an image (C, H, W) after an average pooling of 2×2 squares."""
    channels, height, width = feature_shape
    return channels, height // 2, width // 2


def _average_squares(values: Tensor, out: Tensor) -> Tensor:
    """Write means of 2×2 squares of (..., H, W) and return them; the last row or column of an odd number is not used.

    On a CPU it sums slices, which is faster than torch's kernel for small images.
    """
    height, width = (extent // 2 * 2 for extent in values.shape[-2:])
    row_sums = values[..., 0:height:2, :] + values[..., 1:height:2, :]
    return torch.add(row_sums[..., 0:width:2], row_sums[..., 1:width:2], out=out).mul_(0.25)


def _iter_runs(rows: tuple[tuple[int, int], ...], most: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of runs of at most `most` adjacent rows with one batch variant."""
    start = 0
    for stop in range(1, len(rows) + 1):
        if stop == len(rows) or rows[stop][0] != rows[start][0] or stop - start == most:
            yield start, stop
            start = stop
