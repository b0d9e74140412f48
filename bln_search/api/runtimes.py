"""Export a network as programs: torch.export and ONNX."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

from bln_search.core.errors import ExportError, MissingPackageError

TORCH_PROGRAM, ONNX_PROGRAM = "model.pt2", "model.onnx"
_INPUT, _OUTPUT = "inputs", "logits"
Program = Callable[[Tensor], Tensor]
"""Maps inputs (N, ...), float32, to logits (N, classes)."""


def check_packages() -> None:
    """Raise MissingPackageError unless the packages of the extra `export` are installed."""
    for package in ("onnx", "onnxruntime", "onnxscript"):
        if find_spec(package) is None:
            raise MissingPackageError(package, "export")


def write_programs(
    network: nn.Module, input_shape: tuple[int, ...], largest_batch_size: int | None, folder: Path
) -> None:
    """Write model.pt2 and model.onnx, for mini-batches of one to `largest_batch_size` examples.

    Raises ExportError if torch cannot trace the network.
    """
    example = torch.zeros(2, *input_shape)  # torch would specialize the program to a mini-batch of one
    batch = torch.export.Dim("batch", min=1, max=largest_batch_size)
    with torch.no_grad(), _suppress_warnings():
        try:
            program = torch.export.export(network, (example,), dynamic_shapes=({0: batch},))
            onnx_program = torch.onnx.export(
                program,
                (),
                dynamo=True,
                input_names=[_INPUT],
                output_names=[_OUTPUT],
                dynamic_shapes=({0: "batch"},),
                verbose=False,
            )
        except Exception as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ExportError(
                f"torch cannot trace this network: {reason}; nothing was written. Its forward pass must consist "
                "of tensor operations that are the same for every mini-batch size"
            ) from error
        assert onnx_program is not None
        content = io.BytesIO()
        torch.export.save(program, content)
    (folder / TORCH_PROGRAM).write_bytes(content.getvalue())
    (folder / ONNX_PROGRAM).write_bytes(onnx_program.model_proto.SerializeToString())


def read_torch_program(folder: Path) -> Program:
    """Load model.pt2."""
    with _suppress_warnings():
        module = torch.export.load(folder / TORCH_PROGRAM).module()

    def run(inputs: Tensor) -> Tensor:
        with torch.no_grad():
            logits: Tensor = module(inputs)
        return logits

    return run


def read_onnx_program(folder: Path) -> Program:
    """Load model.onnx into onnxruntime on the CPU."""
    import onnxruntime  # noqa: PLC0415 - in the extra `export`, which only exporting needs

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(
        (folder / ONNX_PROGRAM).read_bytes(), options, providers=["CPUExecutionProvider"]
    )

    def run(inputs: Tensor) -> Tensor:
        (logits,) = session.run(None, {_INPUT: inputs.numpy()})
        return torch.from_numpy(logits)

    return run


@contextmanager
def _suppress_warnings() -> Iterator[None]:
    """Suppress torch's warnings of its own deprecations and of a missing torchvision."""
    logger = logging.getLogger("torch.onnx")
    previous_level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(previous_level)
