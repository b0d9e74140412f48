"""Batch renormalization."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt
from typing import ClassVar, Unpack

import torch
from torch import Tensor

from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.core.method import Method
from bln_search.norms.formula_variant import BN_VARIANTS
from bln_search.norms.fused.terms import NO_HISTORY, HistoryKind, HistoryTerm
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.normalization import Normalization, NormalizationOptions
from bln_search.norms.statistics import StatisticMoments


class BRN(Normalization):
    """Batch renormalization: in training, normalized values are corrected towards the moving averages.

    y = γ·(r·(x − μ_B)/σ_B + d) + β with r = clip(σ_B/σ, 1/r_max, r_max) and d = clip((μ_B − μ)/σ, −d_max, d_max), μ and
    σ the moving averages before this step; r and d are constants to the gradient. r_max = 1, d_max = 0 is BN. The
    population deviation of this method is the average of σ itself, without a correction factor. While `records_history`
    is false, forward passes do not change the averages.

    Args:
        num_features: d, the length of the feature axis.
        momentum: the factor of the moving averages at each step; their weights are normalized, so that the initial
            value does not count.
        r_max: bound on r; may be set before any step.
        d_max: bound on d; may be set before any step.
        layer: further arguments of `Normalization`.

    Source: Ioffe 2017, Algorithm 1; MBN paper (Guo et al. 2018), Eq. 3.
    """

    method = Method.BRN
    has_history = True
    history_buffers: ClassVar[Mapping[str, int]] = {"moving": 1}
    has_fused_kernels = True
    formula_variants = {  # noqa: RUF012
        semantics: replace(variant, averages_deviation=True) for semantics, variant in BN_VARIANTS.items()
    }
    dynamic_buffers = (*Normalization.dynamic_buffers, "moving")
    moving: Tensor | None

    def __init__(
        self,
        num_features: int,
        *,
        momentum: float = 0.99,
        r_max: float = 3.0,
        d_max: float = 5.0,
        **layer: Unpack[NormalizationOptions],
    ) -> None:
        super().__init__(num_features, **layer)
        if not 0 < momentum < 1 or r_max < 1 or d_max < 0:
            raise ModelError(
                f"BRN takes momentum in (0, 1), r_max of at least 1 and d_max of at least 0, not {momentum}, {r_max} "
                f"and {d_max}"
            )
        self.momentum, self.r_max, self.d_max = momentum, r_max, d_max
        self.register_buffer("moving", None)
        self._steps = 0
        self._values_per_batch = 0

    def branch_weights(self, batch_size: int) -> tuple[float, float]:  # noqa: ARG002 - as BN
        """Return weight one for the mini-batch branch."""
        return 1.0, 0.0

    def normalize_branch_in_training(
        self, x: Tensor, mean: Tensor, centred: Tensor, variance: Tensor, deviation: Tensor, weight: float
    ) -> Tensor:
        """Return r·(x − μ_B)/σ_B + d; at the first step r = 1 and d = 0."""
        if self.moving is None:
            return super().normalize_branch_in_training(x, mean, centred, variance, deviation, weight)
        averages = self.moving / self._sum_of_average_weights()
        r = (deviation.detach() / averages[2]).clamp(1 / self.r_max, self.r_max)
        d = ((mean.detach() - averages[0]) / averages[2]).clamp(-self.d_max, self.d_max)
        return torch.addcmul(d * weight, centred, r * weight / deviation)

    def make_history_term(self, values_per_batch: int) -> HistoryTerm:  # noqa: ARG002 - independent of the batch size
        """Return the moving averages of mean and deviation with the bounds of r and d."""
        if self.moving is None:
            return NO_HISTORY
        values = self.moving[::2].flatten(1) / self._sum_of_average_weights()
        return HistoryTerm(HistoryKind.AVERAGES, values, r_max=self.r_max, d_max=self.d_max)

    def update_history(self, mean: Tensor, deviation: Tensor, variance: Tensor, values_per_batch: int) -> None:
        """Update the moving averages of μ, (μ − E[μ])² around the current average, σ and σ² with a mini-batch."""
        mean = mean.detach()
        distance = torch.zeros_like(mean)
        if self.moving is not None:
            old_weight = self._sum_of_average_weights() * self.momentum
            distance = (mean - self.moving[0] / self._sum_of_average_weights()) * sqrt(
                old_weight / (old_weight + 1 - self.momentum)
            )
        entry = torch.stack([mean, distance.square(), deviation.detach(), variance.detach()])
        self.moving = entry * (1 - self.momentum) if self.moving is None else self.moving.lerp(entry, 1 - self.momentum)
        self._steps += 1
        self._values_per_batch = values_per_batch

    def moments_by_estimate_from_history(self) -> dict[str, LayerMoments]:
        """Return the moving averages."""
        if self.moving is None:
            return {}
        moments = StatisticMoments(*(self.moving.double() / self._sum_of_average_weights()))
        return {PopulationEstimate.MOVING: LayerMoments(moments, None, self.batch_size or 1, self._values_per_batch)}

    def _sum_of_average_weights(self) -> float:
        """Return the sum of the weights of all mini-batches so far."""
        return 1 - self.momentum**self._steps

    def list_extra_state_numbers(self) -> list[int]:
        """Return the number of steps in the averages and the number of values in a mini-batch."""
        return [self._steps, self._values_per_batch]

    def restore_extra_state_numbers(self, state: list[int]) -> None:
        """Restore the numbers that `list_extra_state_numbers` returned."""
        self._steps, self._values_per_batch = state

    def upgrade_buffers_of_earlier_format(self) -> None:
        """Convert the second average from E[μ²], as in earlier formats, to Var[μ]."""
        if self.moving is not None and self._steps:
            mean, square, *others = self.moving
            self.moving = torch.stack(
                [mean, (square - mean.square() / self._sum_of_average_weights()).clamp_min(0.0), *others]
            )
