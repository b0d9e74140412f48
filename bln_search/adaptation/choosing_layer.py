"""A normalization layer that chooses the source of its mini-batch statistics for each mini-batch, without labels.

Each row r of a menu estimates a statistic of the domain as w_r·S_r + (1 − w_r)·b, from a stored value S_r and the value
b of the mini-batch. With the sampling variance v of b, Stein's unbiased estimate of its squared error is

    R_r = w_r²·((b − S_r)² − v) + (1 − w_r)²·v.

So the stored value pays for its distance, and the mini-batch for its size. The layer adds R_r of means and deviations,
in units of the population variance, averages over channels, and takes the row with the least sum. The row T, the
population, stays in use unless the shift is clear:

    shift = Σ (b − S_T)² / Σ v > limit.

The sampling variance comes from the examples of the mini-batch: v = s²/n with the variance s² of the mean of one
example, and for deviations s²/(4·n·σ²) with the variance s² of the variance of one example (the delta method). n is
the effective number of examples: a mini-batch of m examples of few classes says less of its domain, and with the
design effect of cluster sampling n = m/(1 + m·ρ). A cautious pass counts the mini-batch as one example. Deep layers
then keep the population, where examples differ by their class most, and first layers leave it, where a shift of the
inputs shows most.

Sources: Stein 1981, Estimation of the mean of a multivariate normal distribution, Eq. 2.8 (the estimate of the risk);
Kish 1965, Survey sampling (the design effect). That rows differ by layer in what they are good for: Lim et al. 2023,
TTN: a domain-shift aware batch normalization in test-time adaptation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from bln_search.core.method import BATCH_STATISTICS
from bln_search.core.row_menu import MenuRow
from bln_search.norms.layer_state import BUFFERS
from bln_search.norms.normalization import Normalization


class MenuWeights(nn.Module):
    """The weights of the stored values in the rows of a menu.

    Args:
        rows: Of the menu.
    """

    share: Tensor
    """w of each row (R,); 0 where it depends on the size of the mini-batch."""
    prior: Tensor
    """N of each row (R,) with w = N/(N + m); 0 for the others."""
    is_moving: Tensor
    """Whether the stored value of each row (R,) moves."""

    def __init__(self, rows: Sequence[MenuRow]) -> None:
        super().__init__()
        weights = [row.weight for row in rows]
        shares = [
            (1.0 if each.source.reads_population else 0.0) if w is None else w.value
            for each, w in zip(rows, weights, strict=True)
        ]
        is_prior = torch.tensor([w is not None and w.is_prior for w in weights])
        values = torch.tensor(shares, dtype=torch.float64)
        self.register_buffer("share", values * ~is_prior, persistent=False)
        self.register_buffer("prior", values * is_prior, persistent=False)
        self.register_buffer("is_moving", torch.tensor([row.source.is_moving for row in rows]), persistent=False)

    def forward(self, size: Tensor) -> Tensor:
        """Return w (R,) for mini-batches of `size` examples."""
        return (self.share + self.prior / (self.prior + size)).to(size.dtype)


@dataclass(frozen=True)
class LayerChoice:
    """What a layer chose in a pass.

    Attributes:
        row: Number of the row.
        shift: Σ (b − S_T)² / (limit·Σ v): above 1 the shift is clear.
        mean: Stored means (R, ...) after the mini-batch.
        deviation: Stored deviations (R, ...) after the mini-batch.
    """

    row: Tensor
    shift: Tensor
    mean: Tensor
    deviation: Tensor


class ChoosingLayer(nn.Module):
    """A normalization layer with a row of a menu for each mini-batch.

    Args:
        layer: In a configuration that takes its mini-batch statistics from the population; other statistics keep their
            sources.
        weights: Of the rows of the menu, T first.

    Attributes:
        concentration: ρ; None in a cautious pass.
        smallest: Number of examples below which a mini-batch is normalized by the population.
        chosen: The choice of the last pass; None if it did not reach the layer.
    """

    stored_mean: Tensor
    """S of each row (R, ...)."""
    stored_deviation: Tensor
    """Stored deviation of each row (R, ...), with ε."""
    limit: Tensor
    """The limit ()."""
    smallest: Tensor

    def __init__(self, layer: Normalization, weights: MenuWeights, smallest: int) -> None:
        super().__init__()
        self.layer, self.weights = layer, weights
        self.concentration: Tensor | None = None
        self.chosen: LayerChoice | None = None
        mean, deviation = (layer.find_configured_value(statistic) for statistic in BATCH_STATISTICS)
        assert mean is not None
        assert deviation is not None
        repeats = len(weights.share), *[1] * (mean.ndim - 1)
        self.register_buffer("stored_mean", mean.detach().repeat(repeats))
        self.register_buffer("stored_deviation", deviation.detach().repeat(repeats))
        self.register_buffer("limit", self.stored_mean.new_ones(()))
        self.register_buffer("smallest", self.stored_mean.new_full((), smallest))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize `x` (m, ...) under the row of the least estimated risk."""
        values = x.to(self.stored_mean.dtype)
        size = torch.full((), x.shape[0], dtype=values.dtype, device=values.device)
        mean, square, spread = self._describe_mini_batch(values, size)
        trailing = [1] * (x.ndim - self.stored_mean.ndim)
        stored_mean, stored_deviation = (
            value.view(*value.shape, *trailing) for value in (self.stored_mean, self.stored_deviation)
        )
        scale = stored_deviation[:1].square()
        distances = (mean - stored_mean).square() + (square.sqrt() - stored_deviation).square()
        distances = (distances / scale).flatten(1).mean(1)
        variance = (spread / scale).mean() / self._effective_number(size)
        w = self.weights(size)
        risks = w.square() * (distances - variance) + (1 - w).square() * variance
        shift = torch.where(size < self.smallest, 0.0, distances[0] / (self.limit * variance))
        row = torch.where(shift > 1, risks.argmin(), 0)
        w = w.view(-1, *[1] * (x.ndim - 1))
        mixed_mean = w * stored_mean + (1 - w) * mean
        if self.layer.formula_variant.around_selected_mean:
            square = square + (mean - mixed_mean).square()
        mixed_deviation = (w * stored_deviation.square() + (1 - w) * square).sqrt()
        moved = self.weights.is_moving.view(-1, *[1] * (self.stored_mean.ndim - 1))
        self.chosen = LayerChoice(
            row,
            shift,
            torch.where(moved, mixed_mean.view_as(self.stored_mean), self.stored_mean),
            torch.where(moved, mixed_deviation.view_as(self.stored_deviation), self.stored_deviation),
        )
        selected = [
            torch.where(row == 0, stored[:1], mixed.view_as(stored).index_select(0, row.view(1)))
            for stored, mixed in ((self.stored_mean, mixed_mean), (self.stored_deviation, mixed_deviation))
        ]
        return self._normalize(x, *selected)

    def keep(self, choice: LayerChoice, is_kept: Tensor) -> None:
        """Store the values after the mini-batch where `is_kept` () is true."""
        self.stored_mean.copy_(torch.where(is_kept, choice.mean, self.stored_mean))
        self.stored_deviation.copy_(torch.where(is_kept, choice.deviation, self.stored_deviation))

    def reset(self) -> None:
        """Begin a stream anew: all stored values are those of the population."""
        self.stored_mean.copy_(self.stored_mean[:1].expand_as(self.stored_mean))
        self.stored_deviation.copy_(self.stored_deviation[:1].expand_as(self.stored_deviation))

    def _describe_mini_batch(self, x: Tensor, size: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean, squared deviation, and m·v: the variance between examples of both statistics, added."""
        axes = self.layer.input_axes(x.ndim)
        positions = tuple(axis for axis in axes.batch_reduction_axes if axis)
        means = x.mean(positions, keepdim=True) if positions else x
        mean = means.mean(0, keepdim=True)
        variances = (x - mean).square()
        variances = variances.mean(positions, keepdim=True) if positions else variances
        variance = variances.mean(0, keepdim=True)
        count = axes.num_values_per_feature(x.shape)
        square = self.layer.formula_variant.compute_batch_deviation(variance, count).square()
        spread = (means - mean).square() + (variances - variance).square() / (4 * square)
        return mean, square, spread.sum(0, keepdim=True) / (size - 1).clamp_min(1)

    def _effective_number(self, size: Tensor) -> Tensor:
        if self.concentration is None:
            return torch.ones_like(size)
        return size / (1 + size * self.concentration)

    def _normalize(self, x: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
        """Return what the layer computes with other population values."""
        names = [BUFFERS[statistic] for statistic in BATCH_STATISTICS]
        output: Tensor = functional_call(self.layer, dict(zip(names, (mean, deviation), strict=True)), (x,))
        return output
