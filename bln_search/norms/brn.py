"""Batch renormalization."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Unpack

import torch
from torch import Tensor

from bln_search.core.configuration import Method
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.norms.formula_variant import BN_READINGS
from bln_search.norms.layer import LayerOptions, Normalization
from bln_search.norms.moment_collection import GatheredMoments
from bln_search.norms.statistics import Moments


class BRN(Normalization):
    """Batch normalization pulled towards its moving averages while it trains.

    y = γ·(r·(x − μ_B)/σ_B + d) + β with r = clip(σ_B/σ, 1/r_max, r_max) and d = clip((μ_B − μ)/σ, −d_max, d_max), μ and
    σ the moving averages before this step; r and d are constants to the gradient. r_max = 1, d_max = 0 is BN.

    momentum: what the moving averages keep a step; their weights are normalized, so that the start does not count.
    `r_max` and `d_max` are set before any step. While `recording` is false, passes leave the averages as they are.
    The population deviation of this method is the average of σ itself, without a correction factor.
    Source: Ioffe 2017, Algorithm 1; MBN paper (Guo et al. 2018), Eq. 3.
    """

    method = Method.BRN
    readings = {semantics: replace(reading, averages_deviation=True) for semantics, reading in BN_READINGS.items()}  # noqa: RUF012
    dynamic_buffers = (*Normalization.dynamic_buffers, "moving")
    moving: Tensor | None

    def __init__(
        self,
        num_features: int,
        *,
        momentum: float = 0.99,
        r_max: float = 3.0,
        d_max: float = 5.0,
        **layer: Unpack[LayerOptions],
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
        self._values = 0

    def factors(self, m: int) -> tuple[float, float]:  # noqa: ARG002 - as BN
        """The whole of the mini-batch part."""
        return 1.0, 0.0

    def training_part(
        self, x: Tensor, mean: Tensor, centred: Tensor, variance: Tensor, deviation: Tensor, factor: float
    ) -> Tensor:
        """r·(x − μ_B)/σ_B + d; without an average yet, r = 1 and d = 0."""
        if self.moving is None:
            return super().training_part(x, mean, centred, variance, deviation, factor)
        averages = self.moving / self._weight()
        r = (deviation.detach() / averages[2]).clamp(1 / self.r_max, self.r_max)
        d = ((mean.detach() - averages[0]) / averages[2]).clamp(-self.d_max, self.d_max)
        return torch.addcmul(d * factor, centred, r * factor / deviation)

    def remember(self, mean: Tensor, deviation: Tensor, variance: Tensor, values: int) -> None:
        """Fold a mini-batch into the moving averages of μ, (μ − E[μ])², σ and σ², the second around the mean so far."""
        mean = mean.detach()
        distance = torch.zeros_like(mean)
        if self.moving is not None:
            before = self._weight() * self.momentum
            distance = (mean - self.moving[0] / self._weight()) * sqrt(before / (before + 1 - self.momentum))
        entry = torch.stack([mean, distance.square(), deviation.detach(), variance.detach()])
        self.moving = entry * (1 - self.momentum) if self.moving is None else self.moving.lerp(entry, 1 - self.momentum)
        self._steps += 1
        self._values = values

    def own_estimates(self) -> dict[PopulationEstimate, GatheredMoments]:
        """The moving averages."""
        if self.moving is None:
            return {}
        moments = Moments(*(self.moving.double() / self._weight()))
        return {PopulationEstimate.MOVING: GatheredMoments(moments, None, self.batch_size or 1, self._values)}

    def _weight(self) -> float:
        """The sum of the weights of all mini-batches so far."""
        return 1 - self.momentum**self._steps

    def own_state(self) -> list[int]:
        """How many steps are folded into the averages, and the values of a mini-batch."""
        return [self._steps, self._values]

    def set_own_state(self, state: list[int]) -> None:
        """What `own_state` returned."""
        self._steps, self._values = state

    def upgrade_buffers(self) -> None:
        """Averages of earlier formats hold that of μ² in the second place."""
        if self.moving is not None and self._steps:
            mean, square, *others = self.moving
            self.moving = torch.stack([mean, (square - mean.square() / self._weight()).clamp_min(0.0), *others])
