"""Registry of normalization layers that `convert` replaces: those of torch and of other libraries, and plugins."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from bln_search.core.errors import ModelError
from bln_search.core.registry import NORM_LAYER_REPLACERS
from bln_search.norms.normalization import Normalization
from bln_search.norms.replacement.factory import OTHER_STATISTICS, NormFactory, ReplaceFunction
from bln_search.norms.replacement.libraries import BUILT_IN
from bln_search.norms.replacement.torch_layer import (
    has_computed_parameters,
    keep_attributes,
    keep_hooks,
    keep_own_class,
)

_MODE_METHODS = ("train", "eval")
"""Methods with which a class can keep its layers in one mode."""

_REGISTERED: dict[str, ReplaceFunction] = {}


def class_path(layer_class: type) -> str:
    """Return module and name of a class; `torch.nn.X` for the classes of `torch.nn`."""
    if getattr(nn, layer_class.__name__, None) is layer_class:
        return f"torch.nn.{layer_class.__name__}"
    return f"{layer_class.__module__}.{layer_class.__qualname__}"


def register_norm_layer(layer_class: type[nn.Module] | str, replace: ReplaceFunction) -> None:
    """Make `convert` replace the normalization layers of a class.

    This includes subclasses that do not define another forward pass. The last registration of a class counts.

    Args:
        layer_class: The class, or its path, as in `own_library.norms.OwnNorm`: then its library is not imported.
        replace: Function of the layer and of a `NormFactory`. It returns a new layer of the factory, or a module that
            contains one, and does not change the old layer. For a layer without a counterpart it returns a text, the
            reason: `convert` keeps the layer, as it keeps `nn.RMSNorm`. It raises ModelError, with the reason, for
            another layer that cannot be replaced.

    Raises:
        ModelError: The class is built in or no class of modules, or `replace` is not a function.

    Example:
        class ChannelsFirst(nn.LayerNorm):
            def forward(self, x):
                return super().forward(x.movedim(1, -1)).movedim(-1, 1)

        bln_search.register_norm_layer(ChannelsFirst, lambda layer, factory: factory.layer_norm(layer, feature_axis=1))
    """
    if isinstance(layer_class, type) and issubclass(layer_class, nn.Module):
        path = class_path(layer_class)
    elif isinstance(layer_class, str) and "." in layer_class:
        path = layer_class
    else:
        raise ModelError(
            "register_norm_layer takes a class of modules or its path, as in 'own_library.OwnNorm', not "
            f"{layer_class!r}"
        )
    if path in BUILT_IN:
        raise ModelError(f"convert replaces {path} without registration: register other classes only")
    if not callable(replace):
        raise ModelError(f"the replacement of {path} is not a function of a layer and a NormFactory: {replace!r}")
    _REGISTERED[path] = replace


def find_registered_class(layer: nn.Module) -> type[nn.Module] | None:
    """Return the nearest class of a layer, itself or a base class, that is registered; None where there is none."""
    return next((kind for kind in type(layer).__mro__ if _is_registered(class_path(kind))), None)


@dataclass(frozen=True)
class NotReplacedReason:
    """Why a layer is not replaced.

    Attributes:
        reason: The reason, a part of a sentence.
        has_counterpart: Whether other layers of its class are replaced, and this one is a variant of them.
    """

    reason: str
    has_counterpart: bool = True


def replace_layer_or_explain(layer: nn.Module, factory: NormFactory) -> nn.Module | NotReplacedReason:
    """Return the replacement of a layer, or the reason why it cannot be replaced.

    Raises:
        ModelError: The registered function failed, or its package cannot be loaded.
    """
    kind = find_registered_class(layer)
    if kind is None:
        return NotReplacedReason("no replacement is registered for it")
    if getattr(layer.forward, "__func__", None) is not kind.forward:
        if issubclass(kind, nn.GroupNorm):
            return NotReplacedReason(OTHER_STATISTICS, has_counterpart=False)
        stays_anyway = issubclass(kind, nn.modules.instancenorm._InstanceNorm)
        return NotReplacedReason(
            f"its forward pass is not that of {class_path(kind)}", has_counterpart=not stays_anyway
        )
    path = class_path(kind)
    try:
        replacement = _load_replace_function(path)(layer, factory)
    except ModelError as error:
        return NotReplacedReason(str(error))
    except Exception as error:
        raise ModelError(f"the function registered for {path} failed: {type(error).__name__}: {error}") from error
    if isinstance(replacement, str):
        return NotReplacedReason(replacement, has_counterpart=False)
    modules = replacement.modules() if isinstance(replacement, nn.Module) else ()
    if not any(isinstance(module, Normalization) for module in modules):
        raise ModelError(
            f"the function registered for {path} returned {type(replacement).__name__}: it must return a layer of its "
            "NormFactory, or a module that contains one"
        )
    return _keep_what_layer_has(replacement, layer, kind, factory)


def _keep_what_layer_has(
    replacement: nn.Module, layer: nn.Module, kind: type[nn.Module], factory: NormFactory
) -> nn.Module | NotReplacedReason:
    """Give a replacement what a layer has besides its forward pass, or return what it would lose."""
    if factory.method is None and isinstance(replacement, Normalization):
        keep_own_class(replacement, layer)
    else:
        own = next((name for name in _MODE_METHODS if getattr(type(layer), name) is not getattr(kind, name)), None)
        if own is not None:
            return NotReplacedReason(f"its {own}() is not that of {class_path(kind)}")
        if has_computed_parameters(layer):
            return NotReplacedReason("its γ or β is computed from other parameters, by a parametrization or pruning")
        keep_attributes(replacement, layer)
    keep_hooks(replacement, layer)
    replacement.training = layer.training
    return replacement


def _is_registered(path: str) -> bool:
    return path in BUILT_IN or path in _REGISTERED or path in NORM_LAYER_REPLACERS.plugins


def _load_replace_function(path: str) -> ReplaceFunction:
    """Return the function of a registered class. Raises an error of its package where that cannot be loaded."""
    function = BUILT_IN.get(path) or _REGISTERED.get(path)
    if function is None:
        function = NORM_LAYER_REPLACERS.plugins[path].load()
    return function
