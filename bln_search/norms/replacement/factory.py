"""Makes normalization layers with the parameters of the layers that they replace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from torch import Tensor, nn

from bln_search.core.enums import NormalizedAxes, Semantics
from bln_search.core.errors import ModelError
from bln_search.core.method import FEATURE_STATISTICS, Method
from bln_search.norms.instance import InstanceNorm
from bln_search.norms.methods import BN, make_norm
from bln_search.norms.normalization import Normalization
from bln_search.norms.replacement.torch_layer import keep_torch_class
from bln_search.norms.replacement.wrappers import MergedAxesNorm

OTHER_STATISTICS = "its statistics have no counterpart in BatchNorm or LayerNorm"
"""Why a layer stays whose statistics are neither those of a mini-batch nor those of the features of an example."""


@dataclass(frozen=True)
class NormFactory:
    """Makes layers of the method that `convert` was called with.

    Attributes:
        method: Method of the new layers; None for that of each replaced layer, with equal outputs (`same`).
        semantics: Variant of the formulas.
        batch_size: m, the training mini-batch size in the weights of BLN.
        training: Whether the replaced layer is in training mode.
        fallback: Tensor with dtype and device of a layer without parameters; None for torch's defaults.
        parameters: New parameter of each replaced one: layers that share a parameter still share it.
    """

    method: Method | None
    semantics: Semantics = Semantics.PAPER
    batch_size: int | None = None
    training: bool = True
    fallback: Tensor | None = None
    parameters: dict[Tensor, nn.Parameter] = field(default_factory=dict)

    def make(
        self,
        kind: Literal["bn", "ln"],
        num_features: int,
        *,
        epsilon: float,
        weight: Tensor | None,
        bias: Tensor | None,
        feature_axis: int,
        running_mean: Tensor | None = None,
        running_var: Tensor | None = None,
        num_batches_tracked: Tensor | None = None,
        axes: NormalizedAxes = NormalizedAxes.POSITION,
    ) -> Normalization:
        """Make the layer that replaces one.

        Args:
            kind: `bn` for batch normalization, `ln` for layer normalization.
            num_features: d, the length of the feature axis.
            epsilon: ε under the root of the deviation.
            weight: γ with d entries; None for ones that are not trained.
            bias: β with d entries; None for zeros that are not trained.
            feature_axis: Axis of the features.
            running_mean: (d,), moving average of the mean; None for batch normalization without it.
            running_var: (d,), moving average of the corrected variance.
            num_batches_tracked: Number of mini-batches in the moving averages.
            axes: Over which LN and BLN compute the statistics of an example; other methods have none.
        """
        keeps_outputs = self.method is None
        method = Method(self.method or kind)
        has_axes = axes is not NormalizedAxes.POSITION and FEATURE_STATISTICS[0] in method.statistics
        norm = make_norm(
            method,
            num_features,
            semantics=self.semantics,
            epsilon=epsilon if keeps_outputs else None,
            feature_axis=feature_axis,
            batch_size=self.batch_size,
            **({"axes": axes} if has_axes else {}),
        )
        self._set_parameters(norm, weight, bias, running_mean)
        if isinstance(norm, BN) and keeps_outputs and running_mean is not None and running_var is not None:
            norm.use_running_statistics_as_population(running_mean, running_var, num_batches_tracked)
        norm.replaces_torch_layer = keeps_outputs
        return norm.train(self.training)

    def batch_norm(self, layer: nn.Module) -> Normalization:
        """Replace a layer with the attributes of `nn.BatchNorm2d`: features on axis 1."""
        norm = self.make(
            "bn",
            layer.num_features,  # type: ignore[arg-type]
            epsilon=layer.eps,  # type: ignore[arg-type]
            weight=_get_tensor_attribute(layer, "weight"),
            bias=_get_tensor_attribute(layer, "bias"),
            feature_axis=1,
            running_mean=_get_tensor_attribute(layer, "running_mean"),
            running_var=_get_tensor_attribute(layer, "running_var"),
            num_batches_tracked=getattr(layer, "num_batches_tracked", None),
        )
        return self._keep_class(norm, layer)

    def layer_norm(self, layer: nn.Module, *, feature_axis: int = -1) -> nn.Module:
        """Replace a layer with the attributes of `nn.LayerNorm`: over its last axes, or over one other axis.

        Args:
            layer: Layer with `normalized_shape`, `eps`, `weight` and `bias`.
            feature_axis: Axis of the features; 1 for inputs (N, C, H, W). Several axes must be the last ones.

        Raises:
            ModelError: It normalizes over several axes, and `feature_axis` is not the last one.
        """
        shape: tuple[int, ...] = tuple(layer.normalized_shape)  # type: ignore[arg-type]
        if len(shape) > 1 and feature_axis != -1:
            raise ModelError(f"it normalizes over {len(shape)} axes {shape}, which must be the last ones")
        norm = self.make(
            "ln",
            prod(shape),
            epsilon=layer.eps,  # type: ignore[arg-type]
            weight=_get_tensor_attribute(layer, "weight"),
            bias=_get_tensor_attribute(layer, "bias"),
            feature_axis=feature_axis,
        )
        norm = self._keep_class(norm, layer)
        if len(shape) == 1:
            return norm
        norm.__dict__["normalized_shape"] = (prod(shape),)
        return MergedAxesNorm(norm, shape)

    def group_norm(self, layer: nn.Module) -> nn.Module | str:
        """Replace a layer with the attributes of `nn.GroupNorm` with one group: statistics over the whole layer.

        Returns:
            The new layer; or the reason why the layer stays: it has several groups, or `convert` was called with
            semantics `reference`.
        """
        if layer.num_groups != 1 or self.semantics is Semantics.REFERENCE:
            return OTHER_STATISTICS
        norm = self.make(
            "ln",
            layer.num_channels,  # type: ignore[arg-type]
            epsilon=layer.eps,  # type: ignore[arg-type]
            weight=_get_tensor_attribute(layer, "weight"),
            bias=_get_tensor_attribute(layer, "bias"),
            feature_axis=1,
            axes=NormalizedAxes.LAYER,
        )
        return self._keep_class(norm, layer)

    def instance_norm(self, layer: nn.Module) -> nn.Module | str:
        """Replace a layer with the attributes of `nn.InstanceNorm2d`: channels on axis 1, positions on the next axes.

        Returns:
            The new layer; or the reason why the layer stays: it has no running statistics, or `convert` was not called
            with `method="same"`.
        """
        mean, variance = _get_tensor_attribute(layer, "running_mean"), _get_tensor_attribute(layer, "running_var")
        if mean is None or variance is None or self.method is not None:
            return OTHER_STATISTICS
        norm = InstanceNorm(layer.num_features, epsilon=layer.eps, batch_size=self.batch_size)  # type: ignore[arg-type]
        self._set_parameters(norm, _get_tensor_attribute(layer, "weight"), _get_tensor_attribute(layer, "bias"), mean)
        norm.use_running_statistics_as_population(mean, variance, getattr(layer, "num_batches_tracked", None))
        norm.replaces_torch_layer = True
        return self._keep_class(norm.train(self.training), layer)

    def _keep_class(self, norm: Normalization, layer: nn.Module) -> Normalization:
        """Make the new layer an instance of the torch class of the replaced one, where the outputs are kept."""
        return norm if self.method is not None else keep_torch_class(norm, layer)

    def _set_parameters(
        self, norm: Normalization, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None
    ) -> None:
        """Set γ and β with dtype and device of the replaced layer; shared ones are shared again."""
        candidates = (weight, bias, running_mean, self.fallback)
        reference = next((value for value in candidates if value is not None and value.is_floating_point()), None)
        if reference is not None:
            norm.to(device=reference.device, dtype=reference.dtype)
        for name, source in (("weight", weight), ("bias", bias)):
            parameter: nn.Parameter | None = getattr(norm, name)
            if parameter is None:  # `none` has no γ
                continue
            if source is None:
                parameter.requires_grad = False
            elif source in self.parameters:
                setattr(norm, name, self.parameters[source])
            elif self.method is None and isinstance(source, nn.Parameter) and source.ndim == 1:
                setattr(norm, name, source)  # optimizers and averages that hold it stay right
            else:
                parameter.data = source.detach().clone().flatten()
                parameter.requires_grad = source.requires_grad
                self.parameters[source] = parameter


ReplaceFunction = Callable[[nn.Module, NormFactory], nn.Module | str]
"""Returns the replacement of a layer, or a text: the reason why a layer of this kind has no counterpart and stays.

Raises ModelError, with the reason, if this layer cannot be replaced.
"""


def _get_tensor_attribute(layer: nn.Module, name: str) -> Tensor | None:
    value: Tensor | None = getattr(layer, name)
    return value
