"""Types of arguments that several functions take, and their checks."""

from __future__ import annotations

from typing import Literal

from torch import nn

from bln_search.core.errors import ModelError

MethodName = Literal["bln", "bn", "ln", "mbn", "brn", "none", "same"]
SemanticsName = Literal["paper", "reference"]
CorrectionName = Literal["bessel", "total"]
ExportFormatName = Literal["safetensors", "torch_export", "onnx"]
EstimateName = Literal["frozen", "epoch", "moving"]
OtherLayersName = Literal["free", "shared", "as_is"]
LayerSearchName = Literal["exact", "beam", "coordinate", "tpe", "racing", "random"]


def check_network(network: object, call: str) -> None:
    """Raise ModelError unless `network` is an `nn.Module`. call: how the function is called, for the message."""
    if isinstance(network, nn.Module):
        return
    if isinstance(network, type) and issubclass(network, nn.Module):
        name = network.__name__
        raise ModelError(f"the network is the class {name}: give an instance of it, as in {name}(...)")
    raise ModelError(f"the network has the type {type(network).__name__}, which is not an nn.Module: call {call}")
