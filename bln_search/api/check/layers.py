"""Layers of a network that store statistics of the training data, of any library, and the statistics they store."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.instancenorm import _InstanceNorm

from bln_search.core.errors import ModelError
from bln_search.data.inputs import Inputs

Layers = Mapping[str, nn.Module]
"""Layers by their names in the network."""


@dataclass(frozen=True)
class Moments:
    """Mean and variance of each channel of a layer's inputs, (C,) each, in double precision.

    Attributes:
        mean: Means.
        variance: Variances.
        batches: Number of mini-batches over which both are means; 0 where it is unknown.
    """

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    batches: int = 0

    @property
    def are_finite(self) -> bool:
        """Whether all values are finite, and no variance is negative."""
        return bool(np.isfinite(self.mean).all() and np.isfinite(self.variance).all() and (self.variance >= 0).all())

    def distance_to(self, other: Moments) -> NDArray[np.float64]:
        """How far the moments of each channel are from others, in deviations of the others and log ratios, (C,)."""
        scale = np.sqrt(np.maximum(other.variance, 1e-12))
        shift = np.abs(self.mean - other.mean) / scale
        ratio = np.abs(np.log(np.maximum(self.variance, 1e-12)) - np.log(np.maximum(other.variance, 1e-12))) / 2
        distances: NDArray[np.float64] = shift + ratio
        return distances

    def combined_with(self, other: Moments) -> Moments:
        """Means over the mini-batches of both."""
        total = self.batches + other.batches
        share = self.batches / total
        return Moments(
            share * self.mean + (1 - share) * other.mean, share * self.variance + (1 - share) * other.variance, total
        )


@dataclass(frozen=True)
class LayerReading:
    """A layer as it was given.

    Attributes:
        kind: Name of its class.
        stored: The statistics that it stores.
        epsilon: Its ε; None where it has none.
        default_epsilon: ε of its class; None where the class has none.
        momentum: Its momentum; None for a cumulative average, and where it has none.
        has_momentum: Whether the layer has a momentum.
        updates: Number of updates of the statistics; None where it is not counted.
        in_training_mode: Whether it is in training mode.
        is_frozen: Whether its γ and β exist and are not trained.
    """

    kind: str
    stored: Moments
    epsilon: float | None
    default_epsilon: float | None
    momentum: float | None
    has_momentum: bool
    updates: int | None
    in_training_mode: bool
    is_frozen: bool


def find_statistics_layers(network: nn.Module) -> dict[str, nn.Module]:
    """Layers with the tensors `running_mean` and `running_var`, by name: batch normalization of any library."""
    return {name: module for name, module in network.named_modules() if _stores_statistics(module)}


def find_layers_without_statistics(network: nn.Module) -> dict[str, nn.Module]:
    """Batch normalization layers that store no statistics, and always use those of the mini-batch."""
    return {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, _NormBase) and module.running_mean is None and isinstance(module, _BatchNorm)
    }


def read_layers(layers: Layers) -> dict[str, LayerReading]:
    """What each layer stores now."""
    return {name: _read_layer(module) for name, module in layers.items()}


def read_moments(module: nn.Module) -> Moments:
    """The statistics that a layer stores."""
    return Moments(_as_array(module.running_mean), _as_array(module.running_var))


@torch.no_grad()
def write_moments(module: nn.Module, moments: Moments) -> None:
    """Store statistics in a layer."""
    for buffer, values in ((module.running_mean, moments.mean), (module.running_var, moments.variance)):
        assert isinstance(buffer, Tensor)
        buffer.copy_(torch.from_numpy(values).to(buffer.dtype).reshape(buffer.shape))


def make_trainable_layers(network: nn.Module) -> None:
    """Replace layers whose class cannot use mini-batch statistics in one process by `nn.BatchNorm` with equal values.

    These are `FrozenBatchNorm2d` of torchvision and its relatives, and `nn.SyncBatchNorm`.
    """
    replacements: dict[nn.Module, nn.Module | None] = {}
    for name, module in list(network.named_modules(remove_duplicate=False)):
        if _stores_statistics(module) and module not in replacements:
            replacements[module] = _make_plain_layer(module)
        replacement = replacements.get(module)
        if replacement is not None:
            parent, _, attribute = name.rpartition(".")
            setattr(network.get_submodule(parent), attribute, replacement)


@contextmanager
def stored_statistics(layers: Layers, moments: Mapping[str, Moments]) -> Iterator[None]:
    """Within this context layers store these statistics; afterwards their own again."""
    with _kept_buffers(layers.values()):
        for name, of_layer in moments.items():
            write_moments(layers[name], of_layer)
        yield


@contextmanager
def mini_batch_statistics(layers: Iterable[nn.Module]) -> Iterator[None]:
    """Within this context layers use the statistics of the mini-batch, and store nothing for longer."""
    layers = list(layers)
    modes = [layer.training for layer in layers]
    with _kept_buffers(layers):
        for layer in layers:
            layer.training = True
        try:
            yield
        finally:
            for layer, mode in zip(layers, modes, strict=True):
                layer.training = mode


@torch.no_grad()
def estimate_moments(network: nn.Module, layers: Layers, batches: Iterable[Inputs]) -> dict[str, Moments]:
    """Statistics of the inputs of each layer: means over mini-batches with the present weights.

    As `torch.optim.swa_utils.update_bn` computes them: layers use the statistics of the mini-batch meanwhile, and the
    variance of a mini-batch has Bessel's correction. They are computed from the inputs of a layer, so its own rule of
    updates does not matter. Other modules keep their modes. Layers that no mini-batch reaches are left out, and so are
    mini-batches of one example, where others have more.

    Raises:
        ModelError: The inputs of a layer have no axis of its channels.
        ValueError: By torch, where no mini-batch has a variance.
    """
    estimated: dict[str, Moments] = {}
    of_batch: list[tuple[str, Moments]] = []

    def add(name: str, layer: nn.Module, inputs: tuple[object, ...]) -> None:
        of_batch.append((name, _compute_moments(name, layer, inputs[0] if inputs else None)))

    handles = [
        layer.register_forward_pre_hook(lambda module, inputs, name=name: add(name, module, inputs))
        for name, layer in layers.items()
    ]
    failure: ValueError | None = None
    try:
        with mini_batch_statistics(layers.values()):
            for inputs in batches:
                of_batch.clear()
                try:
                    network(inputs)
                except ValueError as error:
                    if not is_lack_of_values(error) or len(inputs) > 1:
                        raise
                    failure = error
                    continue
                for name, moments in of_batch:
                    estimated[name] = estimated[name].combined_with(moments) if name in estimated else moments
    finally:
        for handle in handles:
            handle.remove()
    if failure is not None and not estimated:
        raise failure
    return estimated


def is_lack_of_values(error: Exception) -> bool:
    """Whether this is torch's error for a mini-batch with one value in a channel, which has no variance."""
    return "Expected more than 1 value per channel" in str(error)


def _compute_moments(name: str, layer: nn.Module, inputs: object) -> Moments:
    """Mean and variance of the inputs of one call, over all axes but that of the channels."""
    channels = len(read_moments(layer).mean)
    if not isinstance(inputs, Tensor) or inputs.ndim < 2 or channels not in (inputs.shape[1], inputs.shape[-1]):
        raise ModelError(
            f"the layer {name} ({type(layer).__name__}) stores statistics of {channels} channels, and its inputs have "
            "no such axis: they cannot be estimated again"
        )
    values = inputs.detach().to(torch.promote_types(inputs.dtype, torch.float32))
    values = values if inputs.shape[1] == channels else values.movedim(-1, 1)
    if isinstance(layer, _InstanceNorm):
        variance, mean = torch.var_mean(values.flatten(2), 2)
        return Moments(_as_array(mean.mean(0)), _as_array(variance.mean(0)), batches=1)
    values = values.transpose(0, 1).flatten(1)
    variance, mean = torch.var_mean(values, 1, correction=min(1, values.shape[1] - 1))
    return Moments(_as_array(mean), _as_array(variance), batches=1)


@contextmanager
def _kept_buffers(layers: Iterable[nn.Module]) -> Iterator[None]:
    """The buffers of layers have their values again after this context."""
    buffers = [(buffer, buffer.clone()) for layer in layers for buffer in layer.buffers(recurse=False)]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, values in buffers:
                buffer.copy_(values)


def _stores_statistics(module: nn.Module) -> bool:
    values = (getattr(module, name, None) for name in ("running_mean", "running_var"))
    return all(isinstance(value, Tensor) for value in values)


def _read_layer(module: nn.Module) -> LayerReading:
    updates = getattr(module, "num_batches_tracked", None)
    own = list(module.parameters(recurse=False))
    return LayerReading(
        kind=type(module).__name__,
        stored=read_moments(module),
        epsilon=getattr(module, "eps", None),
        default_epsilon=_find_default(type(module), "eps"),
        momentum=getattr(module, "momentum", None),
        has_momentum=hasattr(module, "momentum"),
        updates=int(updates) if isinstance(updates, Tensor) else None,
        in_training_mode=module.training,
        is_frozen=bool(own) and not any(parameter.requires_grad for parameter in own),
    )


def _find_default(kind: type[nn.Module], parameter: str) -> float | None:
    for base in kind.__mro__:
        own = vars(base).get("__init__")
        declared = None if own is None else inspect.signature(own).parameters.get(parameter)
        if declared is not None and isinstance(declared.default, int | float):
            return float(declared.default)
    return None


def _make_plain_layer(module: nn.Module) -> nn.Module | None:
    """An `nn.BatchNorm` with the values of a frozen or synchronized layer; None for any other layer."""
    is_frozen_class = not isinstance(module, _NormBase) and "frozen" in type(module).__name__.lower()
    if not is_frozen_class and type(module) is not nn.SyncBatchNorm:  # a subclass may have an activation
        return None
    mean, weight, bias = module.running_mean, getattr(module, "weight", None), getattr(module, "bias", None)
    assert isinstance(mean, Tensor)
    epsilon = getattr(module, "eps", None)
    plain = _AnyAxesBatchNorm(mean.numel(), eps=0.0 if epsilon is None else float(epsilon), affine=weight is not None)
    plain = plain.to(mean.device, mean.dtype)
    with torch.no_grad():
        write_moments(plain, read_moments(module))
        for own, other in ((plain.weight, weight), (plain.bias, bias)):
            if isinstance(own, Tensor) and isinstance(other, Tensor):
                own.copy_(other.detach().reshape(own.shape))
    plain.train(module.training and not is_frozen_class)
    for parameter, other in ((plain.weight, weight), (plain.bias, bias)):
        if isinstance(parameter, nn.Parameter):
            parameter.requires_grad_(isinstance(other, nn.Parameter) and other.requires_grad)
    return plain


class _AnyAxesBatchNorm(_BatchNorm):
    """Batch normalization of inputs (N, C, ...) with any number of axes."""

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002 - the name of torch
        pass


def _as_array(values: object) -> NDArray[np.float64]:
    assert isinstance(values, Tensor)
    array: NDArray[np.float64] = values.detach().double().cpu().numpy().reshape(-1).copy()
    return array
