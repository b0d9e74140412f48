"""Normalization layers that `convert` does not replace: which they are, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from bln_search.core.errors import ModelError
from bln_search.norms import Normalization
from bln_search.norms.replacement import KEPT, NotReplacedReason, class_path, find_registered_class

_LAZY = (
    *(nn.LazyBatchNorm1d, nn.LazyBatchNorm2d, nn.LazyBatchNorm3d),
    *(nn.LazyInstanceNorm1d, nn.LazyInstanceNorm2d, nn.LazyInstanceNorm3d),
)
_REASONS: dict[type[nn.Module], str] = {
    nn.RMSNorm: "it does not subtract a mean",
    **dict.fromkeys(_LAZY, "it has no parameters before its first mini-batch"),
}
"""Why layers of torch are kept. Lazy layers change their class with the first mini-batch."""


_DISTRIBUTED_WRAPPERS = frozenset(
    {"DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule", "DeepSpeedEngine"}
)
"""Classes that register the parameters of a network for several processes, by name: none of them is imported."""


@dataclass(frozen=True)
class UnconvertedLayer:
    """A normalization layer that is not replaced.

    Attributes:
        name: Its name in the network.
        path: Path of its class.
        reason: Why it is not replaced.
        is_variant: Whether it is a variant of layers that are replaced.
    """

    name: str
    path: str
    reason: str
    is_variant: bool

    @property
    def why_not_replaced(self) -> str:
        """A sentence without its end."""
        return f"layer {self.name or 'itself'} is a {self.path}, which is not replaced: {self.reason}"


def describe_unconverted_layer(
    name: str, layer: nn.Module, not_replaced: NotReplacedReason | None = None
) -> UnconvertedLayer:
    """Return the description of a layer; by default with the reason for its class."""
    is_compiled = isinstance(layer, torch.jit.ScriptModule)
    path = original_class_name(layer) if is_compiled else class_path(type(layer))
    if not_replaced is None:
        return UnconvertedLayer(name, path, _why_layer_is_kept(layer), is_variant=False)
    return UnconvertedLayer(name, path, not_replaced.reason, not_replaced.has_counterpart)


def is_unsupported_norm(module: nn.Module) -> bool:
    """Whether this is a normalization layer, by its class or by the name of its class, that no function replaces."""
    if isinstance(module, Normalization) or find_registered_class(module) is not None:
        return False
    if isinstance(module, tuple(_REASONS)):
        return True
    name = original_class_name(module)
    is_reparametrization = name.startswith("_")  # as torch names the classes of weight norm and spectral norm
    return "norm" in name.lower() and not is_reparametrization and not _has_weighted_or_norm_children(module)


def format_unconverted_layers(layers: Iterable[UnconvertedLayer]) -> str:
    """Return the classes of layers with their numbers and reasons."""
    groups: dict[tuple[str, str], int] = {}
    for layer in layers:
        groups[layer.path, layer.reason] = groups.get((layer.path, layer.reason), 0) + 1
    return "; ".join(f"{count} × {path} ({reason})" for (path, reason), count in sorted(groups.items()))


def check_not_wrapped_for_distributed_training(network: nn.Module) -> None:
    """Raise ModelError where a wrapper already holds the parameters and buffers that a conversion would replace."""
    for name, module in network.named_modules():
        kind = next((base.__name__ for base in type(module).__mro__ if base.__name__ in _DISTRIBUTED_WRAPPERS), None)
        if kind is not None:
            raise ModelError(
                f"{f'the module {name}' if name else 'this network'} is wrapped for distributed training ({kind}), "
                "which has registered its parameters and buffers: convert the network first, and wrap it afterwards"
            )


def _has_weighted_or_norm_children(module: nn.Module) -> bool:
    """Whether a module holds other layers: with parameters, or for normalization. Activations are neither."""
    return any(
        next(child.parameters(), None) is not None
        or isinstance(child, Normalization)
        or find_registered_class(child) is not None
        or "norm" in original_class_name(child).lower()
        for child in module.children()
    )


def original_class_name(module: nn.Module) -> str:
    """Return the name of a module's class, also for a module compiled by torch.jit."""
    return str(module.original_name) if isinstance(module, torch.jit.ScriptModule) else type(module).__name__


def _why_layer_is_kept(layer: nn.Module) -> str:
    if isinstance(layer, torch.jit.ScriptModule):
        return "it is compiled by torch.jit"
    for kind, reason in _REASONS.items():
        if isinstance(layer, kind):
            return reason
    for kind in type(layer).__mro__:
        if class_path(kind) in KEPT:
            return KEPT[class_path(kind)]
    name = type(layer).__name__.lower()
    is_root_mean_square = "rms" in name or name.endswith("t5layernorm")  # the name of T5 and its relatives
    return _REASONS[nn.RMSNorm] if is_root_mean_square else "no replacement is registered for its class"
