"""The base class of the layers with feature statistics: over the channels at a position, or over the whole layer."""

from __future__ import annotations

from typing import Any, Unpack

from torch import Tensor, nn

from bln_search.core.enums import AffineSharing, NormalizedAxes, Semantics
from bln_search.core.errors import ModelError
from bln_search.norms.axes import are_axes_of_sequence
from bln_search.norms.normalization import Normalization, NormalizationOptions


class FeatureStatisticsLayer(Normalization):
    """A layer with feature statistics.

    For an image (C, H, W), with `axes` `position`, every position (h, w) has its own statistics (BLN paper, Eq. 12-13):

        E_F = 1/C Σ_c x_chw,      Std_F² = 1/C Σ_c (x_chw − E_F)² + ε

    With `layer` an example has one pair, over all hidden units H = C·H·W of the layer (Ba, Kiros & Hinton 2016, Eq. 3):

        E_F = 1/(C·H·W) Σ_chw x_chw,      Std_F² = 1/(C·H·W) Σ_chw (x_chw − E_F)² + ε

    The statistics of the mini-batch are the same in both cases: one mean and one deviation for each channel, over
    examples and positions. The branch weights are the same too: m is the size of the mini-batch and d the number of
    channels, so that `axes` changes E_F and Std_F only. The population deviation has the factor m/(m−1) of the BLN
    paper's Eq. 21, m the size of the mini-batch, in both cases.

    Inputs (N, D) and sequences (N, T, D) have the same statistics in both cases: those of the D units of a time step.

    Args:
        num_features: d, the length of the feature axis.
        axes: `position` or `layer`.
        affine: `channel` for one γ and one β for each channel, `unit` for one for each channel at each position.
        positions: (H, W), the lengths of the position axes, with affine `unit` and images only; None to set them later
            (`expand_parameters_to_positions`).
        layer: further arguments of `Normalization`.
    """

    def __init__(
        self,
        num_features: int,
        *,
        axes: NormalizedAxes | str = NormalizedAxes.POSITION,
        affine: AffineSharing | str = AffineSharing.CHANNEL,
        positions: tuple[int, ...] | None = None,
        **layer: Unpack[NormalizationOptions],
    ) -> None:
        super().__init__(num_features, **layer)
        self.normalized_axes, self.affine_sharing = NormalizedAxes(axes), AffineSharing(affine)
        is_default = self.normalized_axes is NormalizedAxes.POSITION and self.affine_sharing is AffineSharing.CHANNEL
        if not is_default and Semantics(layer.get("semantics", Semantics.PAPER)) is Semantics.REFERENCE:
            raise ModelError(
                "axes and affine belong to the semantics `paper`; `reference` has the axes of the BLN authors' code: "
                "remove one of them"
            )
        if positions is not None:
            self.expand_parameters_to_positions(positions)

    def expand_parameters_to_positions(self, positions: tuple[int, ...]) -> None:
        """Make γ and β of shape (C, *positions), their feature axis as in an example; each keeps its channel's value.

        Raises:
            ModelError: the layer has affine `channel`, or positions already; or the positions are time steps.
        """
        axes = self.input_axes(len(positions) + 2)
        if not self.can_expand_parameters or min(positions, default=0) < 1 or are_axes_of_sequence(axes):
            raise ModelError(
                f"positions {tuple(positions)} are for a layer of images with affine `unit` that has none yet: this "
                f"layer has affine `{self.affine_sharing}` and gains of shape {tuple(self.weight.shape)}"
            )
        shape = list(positions)
        shape.insert(axes.feature - 1, self.num_features)
        self._reshape_parameters(tuple(shape))

    @property
    def can_expand_parameters(self) -> bool:
        """Whether `expand_parameters_to_positions` has not been called, with affine `unit`."""
        return self.affine_sharing is AffineSharing.UNIT and self.weight.ndim == 1

    def needs_expanded_parameters_for(self, x: Tensor) -> bool:
        """Return whether γ and β need the positions of an input `x` (N, ...) and do not have them yet."""
        axes = self.input_axes(x.ndim)
        return self.can_expand_parameters and axes.ndim > 2 and not are_axes_of_sequence(axes)

    def broadcast_parameter_shape(self, ndim: int) -> tuple[int, ...]:
        """Return the shape in which γ and β broadcast against an input of `ndim` dimensions."""
        return (1, *self.weight.shape) if self.has_parameters_of_units else super().broadcast_parameter_shape(ndim)

    def check_input(self, x: Tensor) -> None:
        """Raise ModelError unless the layer can normalize `x` (N, ...)."""
        super().check_input(x)
        if self.needs_expanded_parameters_for(x):
            raise ModelError(
                f"this layer has affine `unit` and does not know the positions of its input of shape {tuple(x.shape)}: "
                "give it positions, such as (height, width)"
            )
        if self.has_parameters_of_units and x.shape[1:] != self.weight.shape:
            raise ModelError(
                f"this layer has one γ for each unit of examples of shape {tuple(self.weight.shape)}, its input has "
                f"the shape {tuple(x.shape)}: use inputs of one size, or affine `channel`"
            )

    def extra_repr(self) -> str:
        """Return the arguments that distinguish this layer."""
        options = {"axes": self.normalized_axes, "affine": self.affine_sharing}
        defaults = (NormalizedAxes.POSITION, AffineSharing.CHANNEL)
        changed = [f", {name}={value}" for name, value in options.items() if value not in defaults]
        return super().extra_repr() + "".join(changed)

    def _reshape_parameters(self, shape: tuple[int, ...]) -> None:
        """Replace γ and β by parameters of a shape, with the values of their channels."""
        broadcast = self.input_axes(len(shape) + 1).broadcast_shape(self.num_features)[1:]
        for name in ("weight", "bias"):
            old: nn.Parameter = getattr(self, name)
            value = old.detach().view(broadcast).expand(shape).clone()
            setattr(self, name, nn.Parameter(value, requires_grad=old.requires_grad))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        weight = state_dict.get(f"{prefix}weight")
        if self.can_expand_parameters and isinstance(weight, Tensor) and weight.ndim > 1:
            self._reshape_parameters(tuple(weight.shape))
        super()._load_from_state_dict(state_dict, prefix, *args)
