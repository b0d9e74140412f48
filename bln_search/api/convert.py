"""Replace the BatchNorm and LayerNorm layers of an existing network by layers with configurations."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral

import torch
from torch import Tensor, nn

from bln_search.api.arguments import MethodName, SemanticsName, check_network
from bln_search.core.configuration import InferenceConfiguration, Method
from bln_search.core.enums import Semantics, parse_enum
from bln_search.core.errors import ModelError
from bln_search.norms import BN, Normalization, make_norm
from bln_search.norms.padding import ZeroPaddingHook
from bln_search.norms.statistics import LayerPopulation, PopulationPair

_NOT_CONVERTED = (
    nn.GroupNorm,
    nn.SyncBatchNorm,
    nn.BatchNorm3d,
    nn.RMSNorm,
    nn.InstanceNorm1d,
    nn.InstanceNorm2d,
    nn.LazyBatchNorm1d,
    nn.LazyBatchNorm2d,
    nn.LazyBatchNorm3d,
)
_SAME_METHOD: dict[type[nn.Module], Method] = {
    nn.BatchNorm1d: Method.BN,
    nn.BatchNorm2d: Method.BN,
    nn.LayerNorm: Method.LN,
}


def convert(
    network: nn.Module,
    *,
    method: MethodName | Method = "bln",
    batch_size: int | None = None,
    semantics: SemanticsName | Semantics = "paper",
) -> nn.Module:
    """Replace every `nn.BatchNorm1d`, `nn.BatchNorm2d` and `nn.LayerNorm` of `network` in place, and return it.

    A deep copy preserves the original network. Warns (UserWarning) if the network is trained and `method` is not
    `same`, if normalization layers are not replaced, and if forward hooks are lost with their layers.

    Args:
        network: The network; it is changed in place.
        method: `bln`, `bn`, `ln`, `mbn` or `brn`: train the network afterwards, because the method scales differently.
            Or `same`: BatchNorm becomes BN and LayerNorm becomes LN with their γ, β, ε and running statistics, so that
            a trained network computes the same outputs as before. Its configurations, also with its running statistics
            (`moving`), can then be evaluated.
        batch_size: The training mini-batch size m of BLN's weights; by default the size of the present mini-batch.
        semantics: `paper` or `reference`.

    Returns:
        The network.

    Raises:
        ModelError: There is no network or no layer to replace, the method does not exist, or a layer cannot be replaced
            (a subclass with another forward pass). The network is unchanged.
        ValueError: Another argument is invalid. The network is unchanged.

    Example:
        model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.BatchNorm1d(32), nn.Linear(32, 2))
        model = bln_search.convert(model, batch_size=25)  # train it with mini-batches of 25
    """
    check_network(network, "convert(network)")
    parse_enum(Semantics, semantics, "semantics")
    if batch_size is not None and (not isinstance(batch_size, Integral) or batch_size < 1):
        raise ValueError(f"batch_size is a whole number of at least 1, not {batch_size!r}")
    modules: list[tuple[str, nn.Module]] = list(network.named_modules(remove_duplicate=False))
    replaceable = {name: module for name, module in modules if isinstance(module, tuple(_SAME_METHOD))}
    if not replaceable:
        if any(isinstance(module, Normalization) for _, module in modules):
            raise ModelError("the layers of this network are converted already: use it without converting it again")
        raise ModelError(_no_layer_message(network, modules))
    if method != "same" and method not in list(Method):
        raise ModelError(f"there is no method {method!r}: choose bln, bn, ln, mbn, brn or same")
    replacement_of: dict[nn.Module, Normalization] = {}
    for name, module in replaceable.items():
        if module not in replacement_of:
            reference = _nearest_parameter(modules, module)
            replacement_of[module] = _make_replacement(name, module, reference, method, batch_size, semantics)
    _share_parameters(replacement_of)
    _warn_of_losses(modules, replaceable, method)
    if "" in replaceable:
        return replacement_of[replaceable[""]]
    for name, module in replaceable.items():
        parent, _, attribute = name.rpartition(".")
        setattr(network.get_submodule(parent), attribute, replacement_of[module])
    _disable_nested_tensors(network, keep_zeros=method == "same")
    return network


def _disable_nested_tensors(network: nn.Module, *, keep_zeros: bool) -> None:
    """Disable nested tensors in torch's encoders, because the layers of bln-search do not accept them.

    Args:
        network: The converted network.
        keep_zeros: Return zeros at padding positions, as nested tensors do.
    """
    for encoder in network.modules():
        if isinstance(encoder, nn.TransformerEncoder):
            if keep_zeros and encoder.use_nested_tensor:
                zeros = ZeroPaddingHook(getattr(encoder, "mask_check", True))
                encoder.layers[-1].register_forward_hook(zeros, with_kwargs=True)
            encoder.use_nested_tensor = False


def _no_layer_message(network: nn.Module, modules: Sequence[tuple[str, nn.Module]]) -> str:
    """Why there is no layer to convert."""
    other_norms = _format_other_norms(modules, "; it has {}, which is not replaced")
    if any(isinstance(module, torch.jit.ScriptModule) for _, module in modules):
        return (
            f"this {_class_name(network)} has no layer to convert that is not compiled by torch.jit{other_norms}: "
            "convert the network before it is scripted or traced"
        )
    return (
        f"this {_class_name(network)} has no BatchNorm1d, BatchNorm2d or LayerNorm layer to convert{other_norms}: "
        "add BLN layers where it should be normalized"
    )


def _class_name(module: nn.Module) -> str:
    """The name of a module's class, also for a module compiled by torch.jit."""
    return str(module.original_name) if isinstance(module, torch.jit.ScriptModule) else type(module).__name__


def _is_other_norm(module: nn.Module) -> bool:
    """Is this a normalization layer, by its class or class name, that is not replaced?"""
    if isinstance(module, _NOT_CONVERTED):
        return True
    if isinstance(module, (*_SAME_METHOD, Normalization)) or next(module.children(), None) is not None:
        return False
    kind = _class_name(module)
    is_reparametrization = kind.startswith("_")  # as torch names the classes of weight norm and spectral norm
    return "norm" in kind.lower() and not is_reparametrization


def _format_other_norms(modules: Sequence[tuple[str, nn.Module]], template: str) -> str:
    """The class names of normalization layers that are not replaced, in `template`; empty if there are none."""
    kinds = sorted({_class_name(module) for _, module in modules if _is_other_norm(module)})
    return template.format(", ".join(kinds)) if kinds else ""


def _warn_of_losses(
    modules: Sequence[tuple[str, nn.Module]], replaceable: Mapping[str, nn.Module], method: Method | str
) -> None:
    warning = _format_other_norms(modules, "{} layers of this network are not replaced and stay as they are")
    if warning:
        warnings.warn(warning, stacklevel=3)
    hooked = [name for name, module in replaceable.items() if module._forward_hooks or module._forward_pre_hooks]
    if hooked:
        warnings.warn(f"forward hooks of layer {hooked[0]} are lost with it: register them again", stacklevel=3)
    batch_counts = (getattr(module, "num_batches_tracked", None) for module in replaceable.values())
    if method != "same" and any(count is not None and count.item() > 0 for count in batch_counts):
        warnings.warn(
            f"this network was trained with BatchNorm, and {method} scales otherwise: train it further, or keep what "
            'it has learnt with method="same"',
            stacklevel=3,
        )


def _make_replacement(
    name: str,
    module: nn.Module,
    reference: Tensor | None,
    method: Method | str,
    batch_size: int | None,
    semantics: Semantics | str,
) -> Normalization:
    """Make the layer that replaces `module`.

    Args:
        name: The layer's name, for messages.
        module: The layer to replace.
        reference: A tensor with the dtype and device of a layer that has no parameters.
        method: As for `convert`.
        batch_size: As for `convert`.
        semantics: As for `convert`.
    """
    assert isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm)
    kind = next(kind for kind in _SAME_METHOD if isinstance(module, kind))
    if getattr(module.forward, "__func__", None) is not kind.forward:
        raise ModelError(_subclass_message(name, type(module), kind))
    same_method = _SAME_METHOD[kind]
    keeps_method = method == "same"
    features, axis = _count_features(name, module)
    norm = make_norm(
        same_method if keeps_method else method,
        features,
        semantics=semantics,
        epsilon=module.eps if keeps_method else None,
        feature_axis=axis,
        batch_size=batch_size,
    )
    _copy_parameters(norm, module, reference)
    if isinstance(norm, BN) and keeps_method and isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
        _keep_running_statistics(norm, module)
    norm.replaces_torch_layer = keeps_method
    norm.train(module.training)
    return norm


def _subclass_message(name: str, subclass: type[nn.Module], kind: type[nn.Module]) -> str:
    """Why a subclass is not replaced, and what to do. timm's LayerNorm has its own class for the same formula."""
    is_timm = subclass.__module__.startswith("timm.") and subclass.__name__ == "LayerNorm"
    timm_advice = (
        "build the network with norm_layer=functools.partial(torch.nn.LayerNorm, eps=1e-6), or " if is_timm else ""
    )
    return (
        f"layer {name} is a {subclass.__module__}.{subclass.__qualname__}, whose forward pass is not that of "
        f"torch.nn.{kind.__name__}: {timm_advice}replace it by hand with a layer of bln_search, and "
        "add what else it computes"
    )


def _nearest_parameter(modules: Sequence[tuple[str, nn.Module]], layer: nn.Module) -> Tensor | None:
    """The last parameter defined before the layer, else the first after it; None if the network has none."""
    nearest: Tensor | None = None
    layer_reached = False
    for _, module in modules:
        layer_reached = layer_reached or module is layer
        if layer_reached and nearest is not None:
            return nearest
        parameters = [value for value in module.parameters(recurse=False) if value.is_floating_point()]
        nearest = parameters[-1] if parameters else nearest
    return nearest


def _copy_parameters(
    norm: Normalization, module: nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm, fallback: Tensor | None
) -> None:
    """Copy γ and β with device and dtype; a layer without them gets constant ones and zeros."""
    reference = next((value for value in module.state_dict().values() if value.is_floating_point()), fallback)
    if reference is not None:
        norm.to(device=reference.device, dtype=reference.dtype)
    for parameter, source in ((norm.weight, module.weight), (norm.bias, module.bias)):
        present: Tensor | None = source
        if present is not None:
            parameter.data = present.detach().clone()
        parameter.requires_grad_(present is not None and present.requires_grad)


def _share_parameters(replacement_of: Mapping[nn.Module, Normalization]) -> None:
    """Share γ and β between the new layers if the old ones shared them, as the time steps of a recurrent layer do."""
    parameter_of: dict[Tensor, nn.Parameter] = {}
    for module, norm in replacement_of.items():
        for name, parameter in list(norm.named_parameters()):
            source = getattr(module, name)
            if source is not None:
                setattr(norm, name, parameter_of.setdefault(source, parameter))


def _keep_running_statistics(norm: BN, module: nn.BatchNorm1d | nn.BatchNorm2d) -> None:
    """Copy the running statistics of a BatchNorm as population values; the configuration TT-- reads them."""
    if module.running_mean is None or module.running_var is None:
        return
    norm.running = torch.stack([module.running_mean, module.running_var])
    deviation = torch.sqrt(module.running_var + norm.formula_variant.epsilon)
    pair = PopulationPair(module.running_mean.unsqueeze(0), deviation.unsqueeze(0))
    norm.configure(InferenceConfiguration("TT--"), LayerPopulation(pair, None))


def _count_features(name: str, module: nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm) -> tuple[int, int]:
    """The number of features of a layer, and their axis."""
    if not isinstance(module, nn.LayerNorm):
        return module.num_features, 1
    if len(module.normalized_shape) != 1:
        raise ModelError(
            f"layer {name} normalizes over {len(module.normalized_shape)} axes {tuple(module.normalized_shape)}; "
            "only a LayerNorm over the last axis can be converted: replace it by hand"
        )
    return module.normalized_shape[0], -1
