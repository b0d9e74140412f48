"""tanh of a factored sum in all rows by torch, with the average pooling after it, in pieces that stay in the cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.norms.row_batching.factored_sum import NO_OFFSET, FactoredSum
from bln_search.norms.row_batching.fast_tanh import is_tanh_by_sigmoid_accurate, replace_by_tanh_of_half

_PIECE = 2**19
"""Values of several rows that are computed together."""

_MOST_ROWS = 4
"""Rows of a piece."""

_MINUS_ONE = torch.tensor(-1.0)


def tanh_of_factored_sum(terms: FactoredSum, *, pools: bool) -> Tensor:
    """Return tanh of the sums of all rows, (rows·G·N, C, H, W), or its means of 2×2 squares, (rows·G·N, C, H/2, W/2).

    Args:
        terms: a sum after a linear operation, with both pairs, in single precision on CPU.
        pools: whether to return means of squares.
    """
    if not is_tanh_by_sigmoid_accurate(_sample_of_rows(terms)):
        tanh = torch.tanh(terms.materialize())
        return F.avg_pool2d(tanh, 2) if pools else tanh
    channels, height, width = terms.feature_shape
    out_shape = (channels, height // 2, width // 2) if pools else terms.feature_shape
    out = terms.offset_batch.new_empty(len(terms.rows), terms.groups, terms.size, *out_shape)
    values = _MOST_ROWS * terms.size * channels * height * width
    step = max(1, min(terms.groups, _PIECE // max(1, values)))
    buffers = _Buffers(terms, step, pools=pools)
    for start in range(0, terms.groups, step):
        buffers.write_tanh_of_mini_batches(start, out[:, start : start + step])
    return out.flatten(0, 2)


class _Buffers:
    """Memory that all pieces use, and their computation.

    Args:
        terms: the sum.
        step: number of mini-batches of a piece.
        pools: whether means of 2×2 squares are computed.
    """

    def __init__(self, terms: FactoredSum, step: int, *, pools: bool) -> None:
        self._terms, self._pools = terms, pools
        shape = step, terms.size, *terms.feature_shape
        make = terms.offset_batch.new_empty
        self._batch = make(len(terms.batch_variants), *shape)
        self._feature = make(len(terms.feature_variants), *shape)
        self._sums = make(_MOST_ROWS, *shape)
        channels, height, width = terms.feature_shape
        half = step, terms.size, channels, height // 2
        self._row_sums = make(_MOST_ROWS, *half, width) if pools else None
        self._square_sums = make(_MOST_ROWS, *half, width // 2) if pools else None

    def write_tanh_of_mini_batches(self, start: int, out: Tensor) -> None:
        """Write the outputs of mini-batches from `start` on, (rows, G, N, C, H, W) or pooled."""
        groups = out.shape[1]
        self._compute_doubled_variants(start, groups)
        batch, feature = self._batch[:, :groups], self._feature[:, :groups]
        for first, variant, features in _iter_runs(self._terms.rows):
            sums = self._sums[: len(features), :groups]
            is_contiguous = features == list(range(features[0], features[-1] + 1))
            selected = feature[features[0] : features[-1] + 1] if is_contiguous else feature[features]
            target = out[first : first + len(features)]
            if not self._pools:
                torch.add(batch[variant], selected, out=target)
                replace_by_tanh_of_half(target)
                continue
            torch.add(batch[variant], selected, out=sums).sigmoid_()
            self._average(sums, target)

    def _average(self, sigmoids: Tensor, out: Tensor) -> None:
        """Write the means of 2×2 squares of 2σ - 1."""
        assert self._row_sums is not None
        assert self._square_sums is not None
        rows, groups = sigmoids.shape[:2]
        row_sums = torch.add(*_every_second(sigmoids, -2), out=self._row_sums[:rows, :groups])
        square_sums = torch.add(*_every_second(row_sums, -1), out=self._square_sums[:rows, :groups])
        torch.add(_MINUS_ONE, square_sums, alpha=0.5, out=out)

    def _compute_doubled_variants(self, start: int, groups: int) -> None:
        """Compute twice the batch variants and feature variants of a piece."""
        terms, stop = self._terms, start + groups
        assert terms.scaled_batch is not None
        assert terms.scaled_feature is not None
        assert terms.offset_feature is not None
        batch, feature = self._batch[:, :groups], self._feature[:, :groups]
        for (scaled, offset), target in zip(terms.batch_variants, batch, strict=True):
            offsets = terms.offset_batch[offset]
            offsets = offsets[start:stop] if len(offsets) > 1 else offsets
            torch.add(terms.scaled_batch[scaled, start:stop], offsets, out=target)
        for (scaled, offset), target in zip(terms.feature_variants, feature, strict=True):
            if offset == NO_OFFSET:
                target.copy_(terms.scaled_feature[scaled, start:stop])
            else:
                torch.add(
                    terms.scaled_feature[scaled, start:stop], terms.offset_feature[offset, start:stop], out=target
                )
        batch.mul_(2)
        feature.mul_(2)


def _every_second(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return the even and the odd positions of the last axis but one (-2) or the last (-1), both of equal length."""
    stop = x.shape[axis] // 2 * 2
    if axis == -1:
        return x[..., 0:stop:2], x[..., 1:stop:2]
    return x[..., 0:stop:2, :], x[..., 1:stop:2, :]


def _iter_runs(rows: tuple[tuple[int, int], ...]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield runs of adjacent rows with one batch variant: the first row, the batch variant, the feature variants."""
    start = 0
    for stop in range(1, len(rows) + 1):
        if stop == len(rows) or rows[stop][0] != rows[start][0] or stop - start == _MOST_ROWS:
            yield start, rows[start][0], [feature for _, feature in rows[start:stop]]
            start = stop


def _sample_of_rows(terms: FactoredSum) -> Tensor:
    """Return the sums of the first and the last example of each row, (2·rows, C, H, W)."""
    assert terms.scaled_batch is not None
    assert terms.scaled_feature is not None
    assert terms.offset_feature is not None
    ends = [0, -1]
    scaled_batch, scaled_feature, offset_feature = (
        term[:, ends, ends].unsqueeze(2) for term in (terms.scaled_batch, terms.scaled_feature, terms.offset_feature)
    )
    offset_batch = terms.offset_batch[:, ends]
    sample = replace(
        terms,
        scaled_batch=scaled_batch,
        offset_batch=offset_batch,
        scaled_feature=scaled_feature,
        offset_feature=offset_feature,
        groups=2,
        size=1,
    )
    return sample.materialize()
