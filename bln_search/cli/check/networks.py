"""The network that a command checks: Python, timm, torchvision or transformers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.cli.check.references import call_reference, is_python_reference
from bln_search.core.errors import DataError, MissingPackageError, ModelError

FORMS = "FILE.py:NAME, package.module:NAME, timm:NAME, torchvision:NAME or hf:FOLDER"
"""Forms of a reference, for messages."""

_PROGRAMS = {".pt2": "torch.export", ".onnx": "ONNX", ".ts": "TorchScript"}


def load_network(reference: str, weights: Path | None, classes: int | None) -> nn.Module:
    """The network of a reference with its weights, in evaluation mode unless a function of the user made it.

    Args:
        reference: See `FORMS`.
        weights: A state dict as safetensors, or as torch writes it; None for those of the network.
        classes: Number of classes of a network of timm or torchvision; None for its default.

    Raises:
        ModelError: The reference is no network, or the weights do not fit.
        DataError: A file cannot be read.
        MissingPackageError: The package of the network is not installed.
    """
    library, _, name = reference.partition(":")
    if library in _LIBRARIES:
        network = _LIBRARIES[library](name, weights, classes)
    elif is_python_reference(reference):
        network = call_reference(reference, "NETWORK")
    else:
        raise ModelError(_why_no_reference(reference))
    if not isinstance(network, nn.Module):
        raise ModelError(
            f"{reference} is a {type(network).__name__}, not an nn.Module: name a function that returns one"
        )
    if classes is not None and library not in _LIBRARIES:
        raise ModelError("--classes is for networks of timm and torchvision: this function makes its own")
    if weights is not None:
        load_weights(network, weights)
    return network


def load_weights(network: nn.Module, path: Path) -> None:
    """Load a state dict. Raises ModelError where it does not fit, DataError where it cannot be read."""
    state = _read_state(path)
    try:
        missing, unexpected = network.load_state_dict(state, strict=False)
    except RuntimeError as error:
        mismatches = [line.strip() for line in str(error).splitlines()[1:]]
        first = mismatches[0] if mismatches else str(error)
        raise ModelError(
            f"{path} does not fit this {type(network).__name__} ({len(mismatches)} mismatches): {first}"
        ) from error
    if missing or unexpected:
        problem = [
            f"lacks {missing[0]}" if missing else "",
            f"has {unexpected[0]}, which the network lacks" if unexpected else "",
        ]
        raise ModelError(
            f"{path} does not fit this {type(network).__name__}: it {' and '.join(filter(None, problem))} "
            f"({len(missing)} missing, {len(unexpected)} unexpected)"
        )


def _read_state(path: Path) -> Mapping[str, Tensor]:
    if not path.is_file():
        raise DataError(f"--weights: there is no file {path}")
    try:
        if path.suffix == ".safetensors":
            loaded: Any = import_module("safetensors.torch").load_file(path)
        else:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise DataError(
            f"--weights: {path} cannot be read as a state dict ({type(error).__name__}); a file of a whole network "
            "cannot either: save it with torch.save(model.state_dict(), file) or as safetensors"
        ) from error
    for key in ("state_dict", "model"):
        if isinstance(loaded, Mapping) and isinstance(loaded.get(key), Mapping):
            loaded = loaded[key]
    if isinstance(loaded, Mapping) and loaded and all(str(name).startswith("module.") for name in loaded):
        loaded = {name.removeprefix("module."): value for name, value in loaded.items()}  # of DataParallel
    if not isinstance(loaded, Mapping) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise DataError(f"--weights: {path} holds no state dict, which has a tensor for each name")
    return loaded


def _make_timm_network(name: str, weights: Path | None, classes: int | None) -> nn.Module:
    timm = _import_library("timm")
    options = {} if classes is None else {"num_classes": classes}
    return _make(lambda: timm.create_model(name, pretrained=weights is None, **options), f"timm:{name}")


def _make_torchvision_network(name: str, weights: Path | None, classes: int | None) -> nn.Module:
    models = _import_library("torchvision.models")
    options: dict[str, Any] = {} if classes is None else {"num_classes": classes}
    if weights is None:
        options["weights"] = "DEFAULT"
    return _make(lambda: models.get_model(name, **options), f"torchvision:{name}").eval()


def _load_transformers_network(name: str, weights: Path | None, classes: int | None) -> nn.Module:  # noqa: ARG001 - one signature
    transformers = _import_library("transformers")

    def load() -> nn.Module:
        config = transformers.AutoConfig.from_pretrained(name)
        kind = getattr(transformers, (config.architectures or ["AutoModelForImageClassification"])[0])
        network: nn.Module = kind.from_pretrained(name)
        return network

    return _make(load, f"hf:{name}").eval()


_LIBRARIES = {
    "timm": _make_timm_network,
    "torchvision": _make_torchvision_network,
    "hf": _load_transformers_network,
}


def _import_library(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingPackageError(error.name, extra=None) from None


def _make(function: Any, reference: str) -> nn.Module:
    """A network of a library. Raises ModelError where it has none of this name, or cannot load its weights."""
    try:
        network: nn.Module = function()
    except Exception as error:
        raise ModelError(f"{reference} cannot be made ({type(error).__name__}: {error})") from error
    return network


def _why_no_reference(reference: str) -> str:
    kind = _PROGRAMS.get(Path(reference).suffix)
    if kind is not None or reference.endswith((".pt", ".pth", ".safetensors")):
        what = f"a {kind} program, whose layers cannot be changed" if kind else "a file of weights"
        return f"{reference} is {what}: name the network as {FORMS}, and give a state dict with --weights"
    return f"{reference!r} names no network: give {FORMS}"
