"""Layers that normalize by statistics computed from the weights in front of them."""

from __future__ import annotations

from typing import ClassVar, Unpack

import torch
from torch import Tensor

from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.core.method import Method, Statistic, StatisticSource
from bln_search.norms.analytic.moment_rules import pool_moments_over_positions
from bln_search.norms.analytic.moments import MeanVariance
from bln_search.norms.analytic.propagation_program import PropagationProgram
from bln_search.norms.formula_variant import ANALYTIC_VARIANTS
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.normalization import Normalization, NormalizationOptions
from bln_search.norms.statistics import StatisticMoments


class NormalizationFromWeights(Normalization):
    """y = γ·(x − E)/Std + β with E and Std from the weights in front of the layer (source `A`), in training too.

    The gradient flows through E and Std. Until the layer is bound to the layers in front of it
    (`bln_search.models.analytic.bind_analytic_layers`) it has no value of source A.

    Args:
        num_features: d, the length of the feature axis.
        layer: further arguments of `Normalization`; ε is 1e-12 by default.

    Attributes:
        propagation: how E and Std follow from weights; None for a layer that is not bound.
        input_mean: mean of an example that enters the network, of its shape; None where no rule reads it.
        input_variance: its variance, likewise.

    Source: Shekhovtsov & Flach 2018, Eq. 1-3 and 6.
    """

    formula_variants = ANALYTIC_VARIANTS
    assumes_standard_inputs: ClassVar[bool] = False
    """Whether the outputs of the normalization layers in front are taken as N(0, 1)."""
    reads_input_moments: ClassVar[bool] = False
    """Whether measured moments of the inputs of the network are of use."""
    weight_buffers = ("input_mean", "input_variance")
    dynamic_buffers = (*Normalization.dynamic_buffers, *weight_buffers)
    input_mean: Tensor | None
    input_variance: Tensor | None

    def __init__(self, num_features: int, **layer: Unpack[NormalizationOptions]) -> None:
        super().__init__(num_features, **layer)
        self.propagation: PropagationProgram | None = None
        self.register_buffer("input_mean", None)
        self.register_buffer("input_variance", None)
        self._computed: MeanVariance | None = None

    def branch_weights(self, batch_size: int) -> tuple[float, float]:  # noqa: ARG002 - as BN
        """Return weight one for the mini-batch branch."""
        return 1.0, 0.0

    def forward(self, x: Tensor) -> Tensor:
        """Normalize `x`; mean and deviation from the weights are computed once in a forward pass."""
        try:
            return super().forward(x)
        finally:
            self._computed = None

    def input_moments_from_weights(self, *, training: bool = False) -> MeanVariance:
        """Return mean and variance of the layer's input from the weights, (1, d, 1, ...).

        Args:
            training: whether dropout is active.

        Raises:
            ModelError: the layer is not bound.
        """
        if self.propagation is None:
            raise ModelError(
                f"this {self.method} layer does not know the layers in front of it: convert a network with "
                f'bln_search.convert(network, method="{self.method}", example_inputs=inputs), or call '
                "bln_search.models.analytic.bind_analytic_layers(network, inputs) after it is built"
            )
        value = self.propagation.compute_moments(training=training)
        feature_axis = self.input_axes(value.mean.ndim + 1).feature - 1
        mean, variance = pool_moments_over_positions(value, feature_axis)
        return MeanVariance(mean.unsqueeze(0), variance.unsqueeze(0))

    def resolve_stored_value(self, statistic: Statistic, source: StatisticSource, x: Tensor) -> Tensor | None:
        """As in every layer; source A is computed from the present weights in training, or where none is stored."""
        if source.fixed_estimate is not PopulationEstimate.ANALYTIC or (
            not self.training and self.has_configured_value_from(statistic, source)
        ):
            return super().resolve_stored_value(statistic, source, x)
        if self._computed is None:
            self._computed = self.input_moments_from_weights(training=self.training)
        mean, variance = self._computed
        if statistic is Statistic.BATCH_MEAN:
            return mean
        return torch.sqrt(variance + self.formula_variant.epsilon)

    def moments_by_estimate_from_history(self) -> dict[str, LayerMoments]:
        """Return mean and variance from the present weights; empty for a layer that is not bound."""
        if self.propagation is None:
            return {}
        with torch.no_grad():
            mean, variance = (part.double() for part in self.input_moments_from_weights())
        deviation = torch.sqrt(variance + self.formula_variant.epsilon)
        moments = StatisticMoments(mean, torch.zeros_like(mean), deviation, variance)
        return {str(PopulationEstimate.ANALYTIC): LayerMoments(moments, None, self.batch_size or 1, 1)}

    def list_extra_state_numbers(self) -> list[int]:
        """Return for each statistic whether its stored value comes from the weights."""
        return [int(self.origins.get(statistic) is PopulationEstimate.ANALYTIC) for statistic in self.method.statistics]

    def restore_extra_state_numbers(self, state: list[int]) -> None:
        """Restore the numbers that `list_extra_state_numbers` returned."""
        self.origins = {
            statistic: PopulationEstimate.ANALYTIC
            for statistic, is_analytic in zip(self.method.statistics, state, strict=True)
            if is_analytic
        }


class WN(NormalizationFromWeights):
    """Weight normalization: E = 0, Std = ‖w_k‖, the norm of the weights of each unit in front of the layer.

    Source: Salimans & Kingma 2016, Eq. 2; in the form of Shekhovtsov & Flach 2018, section 1.1.
    """

    method = Method.WN


class NormProp(NormalizationFromWeights):
    """Normalization propagation: E and Std of a unit whose inputs are the present nonlinearities of N(0, 1).

    With a ReLU in front of the weights, E = c₂ Σ_j w_kj and Std = c₁ ‖w_k‖, c₂ = 1/√(2π), c₁² = (1 − 1/π)/2; at the
    input of the network E = 0 and Std = ‖w_k‖.

    Source: Arpit, Zhou, Kota & Govindaraju 2016; in the form of Shekhovtsov & Flach 2018, section 3.
    """

    method = Method.NORMPROP
    assumes_standard_inputs = True


class AP2(NormalizationFromWeights):
    """Analytic propagation of mean and variance, from the gains and biases of the normalization layers in front.

    Their outputs have mean β and variance γ². The inputs of the network have mean 0 and variance 1, as standardized
    data have, unless `set_ap2_input_moments` gives others.

    Source: Shekhovtsov & Flach 2018, Eq. 3-6.
    """

    method = Method.AP2
    reads_input_moments = True
