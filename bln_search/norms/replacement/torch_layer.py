"""What a replaced layer has besides its forward pass: class, attributes, parametrizations and hooks.

A converted layer is an instance of both classes: `isinstance(layer, nn.BatchNorm2d)` stays true, and methods of the
replaced class that this package does not define, such as a `train` that keeps a layer frozen, stay in effect.
"""

from __future__ import annotations

from functools import cache
from types import MethodType
from typing import Any, TypeVar

from torch import nn
from torch.nn.utils import parametrize

_HOOKS = tuple(name for name in vars(nn.Module()) if "_hooks" in name or name == "_is_full_backward_hook")
"""Attributes of a module that hold its hooks."""

_NOT_KEPT = frozenset({*vars(nn.Module()), "_compiled_call_impl", "weight", "bias"})
"""Attributes that every module has, and those that are replaced themselves."""

_TORCH_CLASSES = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)

_N = TypeVar("_N", bound=nn.Module)


def class_without_parametrizations(layer: nn.Module) -> type[nn.Module]:
    """Return the class of a layer; for one with parametrizations the class that it had before."""
    return type(layer).__bases__[0] if parametrize.is_parametrized(layer) else type(layer)


def has_computed_parameters(layer: nn.Module) -> bool:
    """Whether γ or β is computed from other parameters, as with `torch.nn.utils.parametrize` or `prune`."""
    return parametrize.is_parametrized(layer) or any(name in vars(layer) for name in ("weight", "bias"))


def keep_torch_class(norm: _N, layer: nn.Module) -> _N:
    """Make a new layer an instance of the class of torch.nn of the layer that it replaces, with its attributes."""
    kind = class_without_parametrizations(layer)
    torch_class = next((base for base in kind.__mro__ if base.__module__.startswith("torch.nn.modules")), nn.Module)
    return _add_class(norm, layer, torch_class)


def keep_own_class(norm: _N, layer: nn.Module) -> _N:
    """Make a new layer an instance of the class of the layer that it replaces, with its attributes and parameters.

    γ and β that are computed from other parameters stay so. Only classes of torch's layers are kept, and of layers
    derived from them.
    """
    kind = class_without_parametrizations(layer)
    _add_class(norm, layer, kind)
    if not issubclass(kind, _TORCH_CLASSES):
        return norm
    _keep_computed_parameters(norm, layer)
    for name, parameter in layer._parameters.items():
        if name not in norm._parameters:
            norm.register_parameter(name, parameter)
    for name, buffer in layer._buffers.items():
        if name not in norm._buffers:
            norm.register_buffer(name, buffer, persistent=name not in layer._non_persistent_buffers_set)
    for name, module in layer._modules.items():
        if name != "parametrizations":
            norm.add_module(name, module)
    _move_parametrizations(norm, layer)
    return norm


def _keep_computed_parameters(norm: nn.Module, layer: nn.Module) -> None:
    """Remove γ and β where the class or a hook of the layer sets them, as pruning does."""
    for name in ("weight", "bias"):
        if name not in layer._parameters and not _is_parametrized(layer, name):
            norm._parameters.pop(name, None)
            if name in vars(layer):
                norm.__dict__[name] = vars(layer)[name]


def keep_attributes(norm: nn.Module, layer: nn.Module) -> None:
    """Give a new layer the attributes of the layer that it replaces, such as `normalized_shape`, that it lacks.

    Methods of the instance are bound to the new layer.
    """
    inner = getattr(norm, "norm", None)
    for name, value in vars(layer).items():
        is_own = name in vars(norm) or _is_property(norm, name) or (inner is not None and hasattr(inner, name))
        if not is_own and name not in _NOT_KEPT:
            is_method = isinstance(value, MethodType) and value.__self__ is layer
            norm.__dict__[name] = MethodType(value.__func__, norm) if is_method else value


def keep_hooks(norm: nn.Module, layer: nn.Module) -> None:
    """Move the hooks of a layer to the one that replaces it; their handles still remove them."""
    for name in _HOOKS:
        norm.__dict__[name] = layer.__dict__[name]


def _add_class(norm: _N, layer: nn.Module, kind: Any) -> _N:
    if issubclass(kind, nn.SyncBatchNorm):
        kind = nn.modules.batchnorm._BatchNorm  # the statistics are those of one process
    if issubclass(kind, _TORCH_CLASSES) and not isinstance(norm, kind):
        own: Any = getattr(type(norm), "norm_class", type(norm))
        norm.__class__ = _combine_classes(own, kind)
    keep_attributes(norm, layer)
    return norm


@cache
def _combine_classes(norm_class: Any, layer_class: Any) -> Any:
    """Return a subclass of both classes; the first one has precedence."""
    attributes = {
        "__module__": norm_class.__module__,
        "__qualname__": norm_class.__qualname__,
        "__doc__": norm_class.__doc__,
        "__reduce_ex__": _reduce,
        "norm_class": norm_class,
        "layer_class": layer_class,
    }
    return type(norm_class.__name__, (norm_class, layer_class), attributes)


def _reduce(layer: Any, protocol: Any) -> tuple[Any, ...]:  # noqa: ARG001 - the signature of `__reduce_ex__`
    """Return how pickle and copy make the layer again: its class has no name that they could import."""
    return _make_instance, (layer.norm_class, layer.layer_class), layer.__getstate__()


def _make_instance(norm_class: Any, layer_class: Any) -> Any:
    kind = _combine_classes(norm_class, layer_class)
    return kind.__new__(kind)


def _is_property(norm: nn.Module, name: str) -> bool:
    return isinstance(getattr(type(norm), name, None), property)


def _is_parametrized(layer: nn.Module, name: str) -> bool:
    return parametrize.is_parametrized(layer, name)


def _move_parametrizations(norm: nn.Module, layer: nn.Module) -> None:
    """Register the parametrizations of a layer in the one that replaces it, with their parameters."""
    if not parametrize.is_parametrized(layer):
        return
    for name, parametrizations in layer.parametrizations.items():  # type: ignore[operator, union-attr]
        for parametrization in parametrizations:
            parametrize.register_parametrization(norm, name, parametrization, unsafe=True)
        moved = norm.parametrizations[name]  # type: ignore[index]
        for key, original in (*parametrizations._parameters.items(), *parametrizations._buffers.items()):
            setattr(moved, key, original)
