"""Types of arguments that several functions take, and their checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Literal

import torch
from torch import nn

from bln_search.core.blend import PopulationWeight
from bln_search.core.errors import ModelError
from bln_search.norms.network.layers import MomentsByEstimate

MethodName = Literal["bln", "bn", "ln", "mbn", "brn", "wn", "normprop", "ap2", "none", "same"]
SemanticsName = Literal["paper", "reference"]
CorrectionName = Literal["bessel", "total"]
ExportFormatName = Literal["safetensors", "torch_export", "onnx"]
EstimateName = Literal["frozen", "epoch", "moving"]
OtherLayersName = Literal["free", "shared", "as_is"]
LayerSearchName = Literal["exact", "beam", "coordinate", "tpe", "racing", "random"]


def check_network_is_module(network: object, call: str) -> None:
    """Raise ModelError unless `network` is an `nn.Module`. call: how the function is called, for the message."""
    if isinstance(network, nn.Module):
        return
    if isinstance(network, type) and issubclass(network, nn.Module):
        name = network.__name__
        raise ModelError(f"the network is the class {name}: give an instance of it, as in {name}(...)")
    raise ModelError(f"the network has the type {type(network).__name__}, which is not an nn.Module: call {call}")


def get_network_device(network: nn.Module) -> torch.device:
    """The device of a network with normalization layers. Raises ModelError for the device meta, without values."""
    parameter = next(network.parameters())
    if parameter.is_meta:
        raise ModelError("the parameters of the network are on the device meta, without values: load its weights first")
    return parameter.device


def parse_batch_sizes(batch_sizes: Sequence[int] | None) -> tuple[int, ...] | None:
    """The inference mini-batch sizes, each once; None for those of the loaders.

    Raises:
        ValueError: It is no list of whole numbers of at least 1.
    """
    if batch_sizes is None:
        return None
    sizes = [] if isinstance(batch_sizes, str) or not hasattr(batch_sizes, "__len__") else list(batch_sizes)
    if not sizes or not all(_is_whole_number(size) and size >= 1 for size in sizes):
        raise ValueError(f"batch_sizes is a list of whole numbers of at least 1, as in [1, 25], not {batch_sizes!r}")
    return tuple(dict.fromkeys(int(size) for size in sizes))


def parse_weights(name: str, weights: Sequence[float | str]) -> tuple[PopulationWeight, ...]:
    """The weights of an argument such as `blends`, each once.

    Raises:
        TypeError: It is not a sequence.
        ValueError: A weight is not possible.
    """
    if isinstance(weights, str) or not isinstance(weights, Sequence):
        raise TypeError(f'{name} is a list of weights, as in [0.1, "N16"], not {weights!r}')
    return tuple(dict.fromkeys(PopulationWeight.parse(weight) for weight in weights))


def parse_memory_limit(memory_limit: int) -> int:
    """A size in bytes. Raises ValueError unless it is a whole number of at least 1."""
    if not _is_whole_number(memory_limit) or memory_limit < 1:
        raise ValueError(f"memory_limit is a number of bytes of at least 1, not {memory_limit!r}")
    return int(memory_limit)


def parse_flag(name: str, value: bool) -> bool:  # noqa: FBT001 - it is the value to check
    """The value of a flag. Raises TypeError unless it is True or False: a text would be true by mistake."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, not {value!r}")
    return value


def parse_gathered_moments(gathered: MomentsByEstimate | None) -> MomentsByEstimate | None:
    """Collected moments. Raises TypeError unless each estimate, by name, has moments of each layer by name."""
    if gathered is None:
        return None
    if not isinstance(gathered, Mapping) or not all(isinstance(moments, Mapping) for moments in gathered.values()):
        raise TypeError(
            "gathered has moments of each layer by the name of the estimate, as in "
            '{"epoch": {"layer1.bn": moments}}; bln_search.norms.moment_collection collects them'
        )
    return gathered


def _is_whole_number(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
