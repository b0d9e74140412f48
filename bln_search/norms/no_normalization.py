"""The layer of a network without normalization."""

from __future__ import annotations

from typing import TypeVar, Unpack

import torch
from torch import Tensor, nn

from bln_search.core.method import Method
from bln_search.norms.axes import check_num_features
from bln_search.norms.formula_variant import BN_VARIANTS
from bln_search.norms.normalization import Normalization, NormalizationOptions
from bln_search.norms.row_batching.row_tensor import RowBatchedTensor


class NoNormalization(Normalization):
    """y = x + β in place of a normalization layer: no statistics, no γ, and the one configuration `----`.

    β is the bias that a layer in front of a normalization layer leaves out, because the normalization would remove it.
    Where the layer in front has a bias, `drop_bias` makes this layer the identity. So a network equals the same network
    without normalization layers.

    Args:
        num_features: d, the length of the feature axis.
        layer: further arguments of `Normalization`; none has an effect but `feature_axis`.

    Source: the baseline of Ba, Kiros & Hinton 2016, section 6.
    """

    method = Method.NONE
    formula_variants = BN_VARIANTS
    requires_layer_estimate = False

    def __init__(self, num_features: int, **layer: Unpack[NormalizationOptions]) -> None:
        super().__init__(num_features, **layer)
        self.register_parameter("weight", None)

    def forward(self, x: Tensor) -> Tensor:
        """Return x + β, in training and evaluation mode alike; all rows of the one-pass evaluation are equal."""
        if self.observe_call is not None:
            self.observe_call(self, x)
        if x.dtype in (torch.float16, torch.bfloat16) and self.bias is not None:
            return (x + self._broadcast_bias(x).to(x.dtype)).to(self.output_dtype(x))
        return x if self.bias is None else x + self._broadcast_bias(x)

    def _broadcast_bias(self, x: Tensor) -> Tensor:
        """Return β in the shape that broadcasts against `x`."""
        axes = self.input_axes(x.ndim)
        if not isinstance(x, RowBatchedTensor):
            check_num_features(x, axes, self.num_features)
        return self.bias.view(axes.broadcast_shape(self.num_features))

    def branch_weights(self, batch_size: int) -> tuple[float, float]:  # noqa: ARG002 - there is no branch
        """Return zero for both branches."""
        return 0.0, 0.0

    def drop_bias(self) -> None:
        """Become the identity: the layer in front has a bias."""
        self.register_parameter("bias", None)

    @property
    def statistics_dtype(self) -> torch.dtype:
        """Single precision; there are no statistics."""
        return torch.float32

    def extra_repr(self) -> str:
        """Return number of features and whether there is a bias."""
        return f"{self.num_features}, bias={self.bias is not None}"


_Layers = TypeVar("_Layers", bound=nn.Module)


def drop_biases_of_no_normalization(layers: _Layers) -> _Layers:
    """Drop the bias of every `NoNormalization` in `layers`, which stand behind a layer with a bias; return `layers`."""
    for module in layers.modules():
        if isinstance(module, NoNormalization):
            module.drop_bias()
    return layers
