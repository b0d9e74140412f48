"""Precision and compilation of the forward pass of a training step."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.core.errors import ModelError
from bln_search.data.inputs import Inputs
from bln_search.models.recurrent.layer import RecurrentLayer
from bln_search.norms.fused.operators import is_triton_installed
from bln_search.norms.precision import Float32Precision, read_precision_flags, use_float32_precision
from bln_search.specs.sections.precision import TrainingPrecision
from bln_search.specs.sections.training import TrainingSpec


@contextmanager
def use_training_precision(precision: TrainingPrecision) -> Iterator[None]:
    """Allow TF32 in this context if training does, otherwise nothing below IEEE single precision."""
    is_tf32 = precision is TrainingPrecision.TF32
    with use_float32_precision(Float32Precision.TF32 if is_tf32 else Float32Precision.IEEE):
        yield


def describe_training_precision(precision: TrainingPrecision) -> str:
    """What training with this precision sets, for the provenance: the flags by kind of operation, and autocast."""
    with use_training_precision(precision):
        flags = ", ".join(f"{name} {value}" for name, value in read_precision_flags().items())
    return f"{flags}, autocast {'bfloat16' if precision is TrainingPrecision.BF16 else 'off'}"


class TrainingForward:
    """The forward pass of training steps: under autocast or compiled, if the specification says so.

    Args:
        network: The network, whose weights it shares.
        spec: Precision, and whether it is compiled.

    Raises:
        ModelError: The network has recurrent layers, which combine with neither; or Triton is missing.
    """

    def __init__(self, network: nn.Module, spec: TrainingSpec) -> None:
        self._uses_bf16 = spec.precision is TrainingPrecision.BF16
        if (self._uses_bf16 or spec.compile) and any(_is_recurrent(module) for module in network.modules()):
            raise ModelError(
                f"training.{'compile' if spec.compile else 'precision'}: the network has recurrent layers, which are "
                "trained in float32 or tf32 and without compile: remove this key"
            )
        if spec.fused_norms and next(network.parameters()).is_cuda and not is_triton_installed():
            raise ModelError("training.fused_norms: on a GPU it needs Triton: install torch for this GPU, or remove it")
        self._compiles = spec.compile
        self._network: Any = network
        if spec.compile:
            with _ignore_warnings_of_compiler():
                self._network = torch.compile(network, dynamic=False, options=_compiler_options())

    def __call__(self, inputs: Inputs) -> Tensor:
        """The outputs of the network, in float32 for bf16.

        Raises:
            ModelError: The network cannot be compiled on this machine.
        """
        if not self._compiles:
            return self._forward(inputs)
        from torch._dynamo.exc import TorchDynamoException  # noqa: PLC0415 - it takes seconds to load

        try:
            with _ignore_warnings_of_compiler():
                return self._forward(inputs)
        except TorchDynamoException as error:
            reason = str(error).strip().partition("\n")[0]
            raise ModelError(
                f"training.compile: the network cannot be compiled here ({reason}): install a C++ compiler, or remove "
                "compile"
            ) from error

    def _forward(self, inputs: Inputs) -> Tensor:
        with self._autocast():
            outputs: Tensor = self._network(inputs)
        return outputs.float() if self._uses_bf16 else outputs

    def _autocast(self) -> AbstractContextManager[Any]:
        if not self._uses_bf16:
            return nullcontext()
        device = next(iter(self._network.parameters())).device
        return torch.autocast(device.type, torch.bfloat16)


@contextmanager
def _ignore_warnings_of_compiler() -> Iterator[None]:
    """Ignore what torch warns of its own code, and of the cached functions of normalization layers, which are pure."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Dynamo detected a call to a `functools.lru_cache`")
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="torch")
        yield


def _compiler_options() -> dict[str, Any]:
    import torch._inductor as compiler  # noqa: PLC0415 - it takes seconds to load

    known = set(compiler.list_options())
    return {name: value for name, value in (("compile_threads", 1), ("deterministic", True)) if name in known}


def _is_recurrent(module: nn.Module) -> bool:
    return isinstance(module, RecurrentLayer | nn.RNNBase | nn.RNNCellBase)
