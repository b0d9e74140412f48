"""Export a network as programs: torch.export and ONNX."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.api.export.files import ONNX_PROGRAM, TORCH_PROGRAM
from bln_search.api.export.passes import ExampleInputs
from bln_search.api.export.stream import NetworkWithStream, join_inputs
from bln_search.api.inputs.network_calls import find_failing_layer
from bln_search.core.enums import ExportFormat
from bln_search.core.errors import ExportError, MissingPackageError

Program = Callable[..., Any]
"""Called like the forward pass of the network, with examples on the first axis; returns its outputs."""

_NOISY_LOGGERS = ("torch.onnx", "torch.fx.experimental.symbolic_shapes")
_WITHOUT_ONNX = 'nothing was written. Export it with formats=("safetensors", "torch_export")'
_TWO = 2
"""Examples of the mini-batch that is traced: torch would specialize the program to a mini-batch of one."""


def check_onnx_packages_installed() -> None:
    """Raise MissingPackageError unless the packages of the extra `export` are installed."""
    for package in ("onnx", "onnxruntime", "onnxscript"):
        if find_spec(package) is None:
            raise MissingPackageError(package, "export")


def write_torch_and_onnx_programs(
    network: nn.Module,
    examples: ExampleInputs,
    output_names: Sequence[str],
    largest_batch_size: int | None,
    folder: Path,
    formats: Collection[ExportFormat],
    stream: Mapping[str, Tensor],
) -> None:
    """Write model.pt2 and model.onnx, for mini-batches of one to `largest_batch_size` examples; None without a bound.

    The network is in evaluation mode, on the CPU; `output_names` are those of the ONNX program. With a stream, programs
    take it after the inputs, and return it after the outputs.

    Raises:
        ExportError: torch cannot trace the network, or ONNX has no operator that it needs.
    """
    if not {ExportFormat.TORCH_EXPORT, ExportFormat.ONNX} & set(formats):
        return
    program = _trace_with_torch_export(network, examples, largest_batch_size, stream)
    if ExportFormat.ONNX in formats:
        (folder / ONNX_PROGRAM).write_bytes(_export_to_onnx_bytes(program, examples, output_names, stream))
    if ExportFormat.TORCH_EXPORT in formats:
        content = io.BytesIO()
        with _suppress_torch_warnings():
            torch.export.save(program, content)
        (folder / TORCH_PROGRAM).write_bytes(content.getvalue())


def _trace_with_torch_export(
    network: nn.Module, examples: ExampleInputs, largest_batch_size: int | None, stream: Mapping[str, Tensor]
) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=1, max=largest_batch_size)
    traced = examples.with_num_examples(_TWO)
    arguments: tuple[Any, ...] = traced.positional
    named = dict(traced.named)
    module = network
    if stream:
        module = NetworkWithStream(network)
        arguments, named = (join_inputs(arguments, named), tuple(stream.values())), {}
    with torch.no_grad(), _suppress_torch_warnings():
        try:
            return torch.export.export(
                module, arguments, named, dynamic_shapes=_dynamic_batch_axes(examples, batch, stream)
            )
        except Exception as error:
            place = find_failing_layer(error, network)
            network_text = f"this network {place}" if place else "this network"
            raise ExportError(
                f"torch cannot trace {network_text}: {_format_export_error(error)}; nothing was written. Its forward "
                "pass must consist of tensor operations that are the same for every mini-batch size"
            ) from error


def _export_to_onnx_bytes(
    program: torch.export.ExportedProgram,
    examples: ExampleInputs,
    output_names: Sequence[str],
    stream: Mapping[str, Tensor],
) -> bytes:
    with torch.no_grad(), _suppress_torch_warnings():
        try:
            onnx_program = torch.onnx.export(
                program,
                (),
                dynamo=True,
                input_names=[*examples.names, *(f"stream.{name}" for name in stream)],
                output_names=[*output_names, *(f"next_stream.{name}" for name in stream)],
                dynamic_shapes=_dynamic_batch_axes(examples, "batch", stream),
                verbose=False,
            )
        except Exception as error:
            raise ExportError(
                f"torch cannot write this network as ONNX: {_format_export_error(error)}; {_WITHOUT_ONNX}"
            ) from error
    assert onnx_program is not None
    content: bytes = onnx_program.model_proto.SerializeToString()
    return content


def _dynamic_batch_axes(examples: ExampleInputs, batch: object, stream: Mapping[str, Tensor]) -> Any:
    """The first axis of each input is the mini-batch, of any size; a stream has fixed shapes."""
    named = {name: {0: batch} for name in examples.named}
    positional = tuple({0: batch} for _ in examples.positional)
    if stream:
        return join_inputs(positional, named), tuple({} for _ in stream)
    return named or positional


def _format_export_error(error: Exception) -> str:
    """The first line of an error, and the first of its items if torch lists violated constraints."""
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    item = next((line.strip(" -") for line in lines if line.startswith("  - ")), "")
    return " ".join(part for part in (lines[0].partition(" For more information")[0], item) if part)


def load_torch_program(path: Path) -> nn.Module:
    """Load a torch.export program as a module."""
    with _suppress_torch_warnings():
        return torch.export.load(path).module()


def load_onnx_program(path: Path) -> Program:
    """Load an ONNX program into onnxruntime on the CPU; the outputs are a list. Raises ExportError if it is refused."""
    import onnxruntime  # noqa: PLC0415 - in the extra `export`, which only exporting needs

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors
    try:
        session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ExportError(
            f"onnxruntime cannot load this network: {_format_export_error(error)}; {_WITHOUT_ONNX}"
        ) from error
    names = [node.name for node in session.get_inputs()]

    def run_onnx_program(*inputs: Tensor, **named: Tensor) -> list[Tensor]:
        tensors = dict(zip(names, inputs, strict=True)) if inputs else named
        try:
            outputs = session.run(None, {name: tensors[name].numpy() for name in names})
        except Exception as error:
            raise ExportError(
                f"onnxruntime cannot run this network: {_format_export_error(error)}; {_WITHOUT_ONNX}"
            ) from error
        return [torch.from_numpy(output) for output in outputs]

    return run_onnx_program


@contextmanager
def _suppress_torch_warnings() -> Iterator[None]:
    """Suppress torch's warnings of its own deprecations and of a missing torchvision."""
    loggers = [logging.getLogger(name) for name in _NOISY_LOGGERS]
    previous_levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, previous_levels, strict=True):
            logger.setLevel(level)
