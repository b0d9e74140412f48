"""BatchNorm and LayerNorm layers of an existing network replaced by layers with configurations."""

from __future__ import annotations

from torch import nn

from bln_search.core.configuration import Method
from bln_search.core.errors import ModelError
from bln_search.core.words import Semantics
from bln_search.norms import Normalization, make_norm

_SAME = {nn.BatchNorm1d: Method.BN, nn.BatchNorm2d: Method.BN, nn.LayerNorm: Method.LN}


def convert(
    network: nn.Module,
    *,
    method: Method | str = Method.BLN,
    batch_size: int | None = None,
    semantics: Semantics | str = Semantics.PAPER,
) -> nn.Module:
    """Replace every `nn.BatchNorm1d`, `nn.BatchNorm2d` and `nn.LayerNorm` of `network` in place, and return it.

    method: `bln` (train the network afterwards: BLN scales differently), or `same`: BatchNorm becomes BN and LayerNorm
    becomes LN with their γ, β and ε kept, so that a trained network answers as before and its four configurations can
    be evaluated. batch_size: the training mini-batch size m of BLN's weights; by default the size at hand.
    semantics: `paper` or `reference`.

    Raises ModelError where there is no such layer, or one that cannot be replaced; the network is then untouched.
    """
    modules: dict[str, nn.Module] = dict(network.named_modules())
    found = {name: module for name, module in modules.items() if isinstance(module, tuple(_SAME))}
    if not found:
        raise ModelError(
            f"this {type(network).__name__} has no BatchNorm1d, BatchNorm2d or LayerNorm layer to convert; "
            "put BLN layers into it where it should be normalized"
        )
    replacements = {name: _replacement(name, module, method, batch_size, semantics) for name, module in found.items()}
    if "" in replacements:
        return replacements[""]
    for name, replacement in replacements.items():
        parent, _, attribute = name.rpartition(".")
        setattr(network.get_submodule(parent), attribute, replacement)
    return network


def _replacement(
    name: str, module: nn.Module, method: Method | str, batch_size: int | None, semantics: Semantics | str
) -> Normalization:
    assert isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm)
    own = _SAME[next(kind for kind in _SAME if isinstance(module, kind))]
    kept = method == "same"
    features, axis = _features(name, module)
    norm = make_norm(
        own if kept else method,
        features,
        semantics=semantics,
        epsilon=module.eps if kept else None,
        feature_axis=axis,
        batch_size=batch_size,
    )
    for parameter, source in ((norm.weight, module.weight), (norm.bias, module.bias)):
        if source is None:
            parameter.requires_grad_(requires_grad=False)
        else:
            parameter.data = source.detach().clone()
    norm.train(module.training)
    return norm


def _features(name: str, module: nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm) -> tuple[int, int]:
    """How many features the layer has, and at which axis."""
    if not isinstance(module, nn.LayerNorm):
        if isinstance(module.weight, nn.UninitializedParameter):
            raise ModelError(f"layer {name} is lazy: run the network once before converting it")
        return module.num_features, 1
    if len(module.normalized_shape) != 1:
        raise ModelError(
            f"layer {name} normalizes over {len(module.normalized_shape)} axes {tuple(module.normalized_shape)}; "
            "only a LayerNorm over the last axis can be converted: replace it by hand"
        )
    return module.normalized_shape[0], -1
