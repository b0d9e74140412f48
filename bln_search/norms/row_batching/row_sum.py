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
"""Values of a row that are computed together in single precision on a CPU; intermediate results stay in the cache."""

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
    def compute_variants(self, start: int, stop: int, factor: float = 1.0) -> RowOutputsAsSums:
        """Return the variants, times a factor, for the mini-batches from `start` to before `stop`."""

    def materialize(self, form: ElementwiseForm = IDENTITY, *, pools: bool = False) -> Tensor:
        """Return an elementwise function of the outputs of all rows, (rows·G·N, *features).

        Args:
            form: the function.
            pools: whether to return means of its values in squares of 2×2, (rows·G·N, C, H // 2, W // 2).
        """
        form = form.select_for(self.dtype, self.device, self._sample)
        shape = pooled_shape(self.feature_shape) if pools else self.feature_shape
        out = self._empty(len(self.rows), self.groups, shape)
        step, most_rows = max(1, self.groups), max(1, len(self.rows))
        if self.device.type == "cpu" and self.dtype == torch.float32:
            step, most_rows = max(1, _PIECE // max(1, self.size * prod(self.feature_shape))), _MOST_ROWS
        buffer = self._empty(most_rows, min(step, self.groups), self.feature_shape) if pools else None
        for start in range(0, self.groups, step):
            stop = min(start + step, self.groups)
            variants = self.compute_variants(start, stop, form.scale)
            for first in range(0, len(self.rows), most_rows):
                target = out[first : first + most_rows, start:stop]
                values = target if buffer is None else buffer[: len(target), : stop - start]
                variants.write_rows(first, values)
                form.replace(values)
                form.finish(_average_squares(values, target) if pools else values)
        return out.flatten(0, 2)

    def _empty(self, rows: int, groups: int, feature_shape: tuple[int, ...]) -> Tensor:
        return torch.empty(rows, groups, self.size, *feature_shape, dtype=self.dtype, device=self.device)

    def _sample(self) -> Tensor:
        """Return some examples of each row, (rows·examples, *features)."""
        is_image = len(self.feature_shape) > 1
        sample = []
        for group in sample_indices(self.groups, 2 if is_image else _SAMPLED_MINI_BATCHES):
            values = self._empty(len(self.rows), 1, self.feature_shape)
            self.compute_variants(group, group + 1).write_rows(0, values)
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

    def compute_variants(self, start: int, stop: int, factor: float = 1.0) -> RowOutputsAsSums:
        """Return the variants, times a factor, for the mini-batches from `start` to before `stop`."""
        batch = tuple(term[start:stop] if len(term) > 1 else term for term in self.batch)
        feature = None if self.feature is None else self.feature[:, start:stop]
        if factor != 1.0:
            batch = tuple(term * factor for term in batch)
            feature = None if feature is None else feature * factor
        return replace(self, batch=batch, feature=feature, groups=stop - start)

    def write_rows(self, first: int, out: Tensor) -> None:
        """Write rows from `first` on, as many as `out` (rows, G, N, *features) has."""
        rows = self.rows[first : first + len(out)]
        for start, stop in _iter_runs(rows):
            batch, features = self.batch[rows[start][0]], [feature for _, feature in rows[start:stop]]
            if self.feature is None:
                out[start:stop] = batch
                continue
            is_contiguous = features == list(range(features[0], features[-1] + 1))
            selected = self.feature[features[0] : features[-1] + 1] if is_contiguous else self.feature[features]
            torch.add(batch, selected, out=out[start:stop])


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


def _iter_runs(rows: tuple[tuple[int, int], ...]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of runs of adjacent rows with one batch variant."""
    start = 0
    for stop in range(1, len(rows) + 1):
        if stop == len(rows) or rows[stop][0] != rows[start][0]:
            yield start, stop
            start = stop
