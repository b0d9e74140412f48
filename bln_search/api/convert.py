"""Replace the normalization layers of an existing network by layers with configurations."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Integral

import torch
from torch import Tensor, nn

from bln_search.api.analytic_conversion import check_example_inputs_given_if_needed, is_analytic_method
from bln_search.api.arguments import MethodName, SemanticsName, check_network_is_module
from bln_search.api.unconverted_layers import (
    UnconvertedLayer,
    check_not_wrapped_for_distributed_training,
    describe_unconverted_layer,
    format_unconverted_layers,
    is_unsupported_norm,
    original_class_name,
)
from bln_search.core.enums import Semantics, parse_enum
from bln_search.core.errors import ModelError
from bln_search.core.method import Method
from bln_search.norms import Normalization
from bln_search.norms.padding import EncoderZeroPaddingHook
from bln_search.norms.replacement import NormFactory, NotReplacedReason, find_registered_class, replace_layer_or_explain

Modules = Sequence[tuple[str, nn.Module]]
"""Modules of a network with their names; a module that is used twice has two."""


def convert(
    network: nn.Module,
    *,
    method: MethodName | Method = "bln",
    batch_size: int | None = None,
    semantics: SemanticsName | Semantics = "paper",
    strict: bool | None = None,
    example_inputs: Tensor | None = None,
) -> nn.Module:
    """Replace the normalization layers of `network` in place, and return it.

    Replaced are `nn.BatchNorm1d`, `2d` and `3d`, `nn.SyncBatchNorm` (with statistics of one process), `nn.LayerNorm`,
    `nn.GroupNorm` with one group (LN and BLN over the whole layer), their variants in torchvision and timm, and classes
    that `register_norm_layer` or a plugin adds. A deep copy preserves the original network. Hooks of the layers are
    kept. Warns (UserWarning) if the network is trained and `method` is not `same`, and if normalization layers are not
    replaced.

    Args:
        network: The network; it is changed in place.
        method: `bln`, `bn`, `ln`, `mbn` or `brn`: train the network afterwards, because the method scales differently.
            `wn`, `normprop` or `ap2`: statistics computed from the weights in front of each layer, which tracing finds.
            Where the replaced layers have running statistics, γ and β are set so that the network computes the same
            outputs in evaluation mode as before. `example_inputs` is needed.
            `none`: each layer becomes y = x + β, for training the same network without normalization.
            Or `same`: BatchNorm becomes BN, LayerNorm and GroupNorm become LN with their γ, β, ε and running
            statistics, so that a trained network computes the same outputs as before. Its configurations, also with its
            running statistics (`moving`), can then be evaluated. Layers keep their classes, attributes and parameters,
            and training updates the running statistics as in torch.
        batch_size: The training mini-batch size m of BLN's weights; by default the size of the present mini-batch.
        semantics: `paper` or `reference`.
        strict: Whether a normalization layer that cannot be replaced is an error. If false, it stays as it is, and a
            warning names its class. By default false with `method="same"`. With other methods an error only for a
            variant of a replaceable class: a subclass with another forward pass.
        example_inputs: A mini-batch of inputs (N, ...), with `wn`, `normprop` and `ap2` only; its values do not matter.

    Returns:
        The network.

    Raises:
        ModelError: There is no network or no layer to replace, the method does not exist, the network is wrapped for
            distributed training, or a layer cannot be replaced (see `strict`). The network is unchanged.
        ValueError: Another argument is invalid. The network is unchanged.

    Example:
        model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.BatchNorm1d(32), nn.Linear(32, 2))
        model = bln_search.convert(model, batch_size=25)  # train it with mini-batches of 25
    """
    check_network_is_module(network, "convert(network)")
    check_not_wrapped_for_distributed_training(network)
    semantics = parse_enum(Semantics, semantics, "semantics")
    if batch_size is not None and (not isinstance(batch_size, Integral) or batch_size < 1):
        raise ValueError(f"batch_size is a whole number of at least 1, not {batch_size!r}")
    if method != "same" and method not in list(Method):
        raise ModelError(f"there is no method {method!r}: choose {', '.join(Method)} or same")
    check_example_inputs_given_if_needed(network, method, example_inputs)
    modules = list(_iter_outermost_norms(network))
    factory = NormFactory(None if method == "same" else Method(method), semantics, batch_size)
    replacement_of, kept = _make_replacements_and_list_kept(network, modules, factory)
    _check_kept_layers_allowed(kept, method, strict)
    if not replacement_of:
        raise ModelError(_why_no_layer_to_convert(network, modules, kept))
    replaced = [(name, module) for name, module in modules if module in replacement_of]
    if network in replacement_of:
        _warn_of_conversion_side_effects(replaced, kept, method)
        return replacement_of[network]
    _set_modules_by_name(network, {name: replacement_of[module] for name, module in replaced})
    if example_inputs is not None:
        # the models that it traces load every data set
        from bln_search.api.analytic_binding import bind_layers_preserving_outputs  # noqa: PLC0415

        try:
            bind_layers_preserving_outputs(network, replacement_of, example_inputs)
        except ModelError:
            _set_modules_by_name(network, dict(replaced))
            raise
    _warn_of_conversion_side_effects(replaced, kept, method)
    _disable_nested_tensors_in_encoders(network, keep_zeros=method == "same")
    return network


def _set_modules_by_name(network: nn.Module, module_of: Mapping[str, nn.Module]) -> None:
    """Put modules into a network under the names given."""
    for name, module in module_of.items():
        parent, _, attribute = name.rpartition(".")
        setattr(network.get_submodule(parent), attribute, module)


def _iter_outermost_norms(network: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the normalization layers of a network, without modules inside them, under each of their names."""
    inside: str | None = None
    for name, module in network.named_modules(remove_duplicate=False):
        if inside is not None and name.startswith(inside):
            continue
        if (
            find_registered_class(module) is not None
            or isinstance(module, Normalization)
            or is_unsupported_norm(module)
        ):
            inside = f"{name}." if name else ""
            yield name, module


def _make_replacements_and_list_kept(
    network: nn.Module, modules: Modules, factory: NormFactory
) -> tuple[dict[nn.Module, nn.Module], list[UnconvertedLayer]]:
    """Make the layers that replace those of a network; return also the layers that stay."""
    replacement_of: dict[nn.Module, nn.Module] = {}
    kept: dict[nn.Module, UnconvertedLayer] = {}
    for name, module in modules:
        if module in replacement_of or module in kept or isinstance(module, Normalization):
            continue
        if is_unsupported_norm(module):
            kept[module] = describe_unconverted_layer(name, module)
            continue
        fallback = _find_nearest_parameter(network, module) if not module.state_dict() else None
        replacement = replace_layer_or_explain(module, replace(factory, training=module.training, fallback=fallback))
        if isinstance(replacement, NotReplacedReason):
            kept[module] = describe_unconverted_layer(name, module, replacement)
        else:
            replacement_of[module] = replacement
    return replacement_of, list(kept.values())


def _check_kept_layers_allowed(kept: Sequence[UnconvertedLayer], method: Method | str, strict: bool | None) -> None:  # noqa: FBT001
    """Raise ModelError if a layer that is not replaced is an error."""
    if strict is None:
        is_error = [layer for layer in kept if layer.is_variant and method != "same"]
    else:
        is_error = list(kept) if strict else []
    if is_error:
        others = f" ({len(is_error) - 1} more)" if len(is_error) > 1 else ""
        raise ModelError(
            f"{is_error[0].why_not_replaced}{others}. Keep it with strict=False, or add its replacement with "
            "bln_search.register_norm_layer"
        )


def _why_no_layer_to_convert(network: nn.Module, modules: Modules, kept: Sequence[UnconvertedLayer]) -> str:
    """Why there is no layer to convert."""
    if any(isinstance(module, Normalization) for _, module in modules):
        return "the layers of this network are converted already: use it without converting it again"
    others = f"; it has {format_unconverted_layers(kept)}" if kept else ""
    if any(isinstance(module, torch.jit.ScriptModule) for module in network.modules()):
        return (
            f"this {original_class_name(network)} has no layer to convert that is not compiled by "
            f"torch.jit{others}: convert "
            "the network before it is scripted or traced"
        )
    return (
        f"this {original_class_name(network)} has no BatchNorm or LayerNorm layer to convert{others}: add BLN "
        "layers where it should be normalized, or add the replacement of a class with bln_search.register_norm_layer; "
        "put layers of a Python list into an nn.ModuleList; functions such as F.batch_norm are not layers"
    )


def _warn_of_conversion_side_effects(replaced: Modules, kept: Sequence[UnconvertedLayer], method: Method | str) -> None:
    if kept:
        warnings.warn(
            f"normalization layers that are not replaced and stay as they are: {format_unconverted_layers(kept)}",
            stacklevel=3,
        )
    batch_counts = (getattr(module, "num_batches_tracked", None) for _, module in replaced)
    keeps_outputs = method == "same" or (
        is_analytic_method(method) and all(getattr(module, "running_var", None) is not None for _, module in replaced)
    )
    if not keeps_outputs and any(count is not None and count.item() > 0 for count in batch_counts):
        warnings.warn(
            f"this network was trained with BatchNorm, and {method} scales otherwise: train it further, or keep what "
            'it has learnt with method="same"',
            stacklevel=3,
        )


def _find_nearest_parameter(network: nn.Module, layer: nn.Module) -> Tensor | None:
    """The last parameter defined before the layer, else the first after it; None if the network has none."""
    nearest: Tensor | None = None
    layer_reached = False
    for module in network.modules():
        layer_reached = layer_reached or module is layer
        if layer_reached and nearest is not None:
            return nearest
        parameters = [value for value in module.parameters(recurse=False) if value.is_floating_point()]
        nearest = parameters[-1] if parameters else nearest
    return nearest


def _disable_nested_tensors_in_encoders(network: nn.Module, *, keep_zeros: bool) -> None:
    """Disable nested tensors in torch's encoders, because the layers of bln-search do not accept them.

    With `keep_zeros` an encoder returns zeros at padding positions, as nested tensors do.
    """
    for encoder in network.modules():
        if isinstance(encoder, nn.TransformerEncoder):
            if keep_zeros and encoder.use_nested_tensor:
                zeros = EncoderZeroPaddingHook(getattr(encoder, "mask_check", True))
                encoder.layers[-1].register_forward_hook(zeros, with_kwargs=True)
            encoder.use_nested_tensor = False
