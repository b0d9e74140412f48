"""An exported network: raw inputs in, logits out, under one configuration."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load as read_safetensors
from torch import Tensor, nn

from bln_search.api.description import FORMAT, ExportDescription
from bln_search.core.errors import DataError
from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search.norms.network_layers import find_norms

WEIGHTS_FILE, CONFIGURATION_FILE = "model.safetensors", "configuration.json"


class StandardizedInputs(nn.Module):
    """(x − mean)/deviation, the standardization of the study, in double precision as in training.

    Input (N, ...) of any numeric type; output of the same shape, float32.

    Attributes:
        mean: float64, (1, ...), broadcastable to an input.
        deviation: float64, of the shape of `mean`.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: NDArray[np.float64], deviation: NDArray[np.float64]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.from_numpy(mean.copy()))
        self.register_buffer("deviation", torch.from_numpy(deviation.copy()))

    def forward(self, x: Tensor) -> Tensor:
        """Return the standardized inputs."""
        return ((x.to(self.mean.dtype) - self.mean) / self.deviation).float()


class ExportedNetwork(nn.Module):
    """A network that takes raw inputs, as the data set provides them.

    Input (N, *input_shape), float32 or uint8; output (N, classes), logits.

    Attributes:
        standardization: Standardizes the inputs.
        network: Maps standardized inputs to logits.
    """

    def __init__(self, standardization: StandardizedInputs, network: nn.Module) -> None:
        super().__init__()
        self.standardization = standardization
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, (N, classes)."""
        logits: Tensor = self.network(self.standardization(x))
        return logits


def load(folder: str | Path) -> ExportedNetwork:
    """Load the network that `bln-search export` wrote into `folder`, in evaluation mode on the CPU.

    It takes inputs as the data set provides them. Neither the study's database nor its data are needed.

    Args:
        folder: The export.

    Returns:
        The network.

    Raises:
        DataError: The folder is not an export, has another format, or is damaged.

    Example:
        model = bln_search.load("folder")
        logits = model(inputs)
    """
    path = Path(folder)
    description = read_description(path)
    state = _read_weights(path / WEIGHTS_FILE, description.files.get(WEIGHTS_FILE, ""))
    try:
        standardization = StandardizedInputs(
            *(state[f"standardization.{name}"].numpy() for name in ("mean", "deviation"))
        )
        exported = ExportedNetwork(standardization, empty_network(description))
        exported.load_state_dict(state)
    except (KeyError, RuntimeError) as error:
        raise DataError(
            f"{path / WEIGHTS_FILE} does not belong to the network of {CONFIGURATION_FILE}: {error}"
        ) from None
    for name, layer in find_norms(exported.network).items():
        if layer.configuration != description.row.configuration:
            raise DataError(
                f"{path / CONFIGURATION_FILE} says {description.row.configuration}, the layer {name} was written under "
                f"{layer.configuration}: one of the two was changed; export the study again"
            )
    return exported.eval()


def empty_network(description: ExportDescription) -> nn.Module:
    """Build the described network without its weights."""
    model, normalization = description.model, description.normalization
    norm = partial(
        make_norm,
        normalization.method,
        semantics=normalization.semantics,
        epsilon=normalization.epsilon,
        batch_size=normalization.batch_size,
        **normalization.options,
    )
    return build_model(model.name, model.input_shape, model.classes, norm, seed=0, options=model.options)


def read_description(folder: Path) -> ExportDescription:
    """Read configuration.json. Raises DataError if it is missing, damaged, or of another format."""
    path = folder / CONFIGURATION_FILE
    try:
        content: Any = json.loads(path.read_bytes())
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(
            f"{folder} is not an export of bln-search: {CONFIGURATION_FILE} cannot be read ({reason})"
        ) from None
    except ValueError as error:
        raise DataError(f"{path} is damaged, it is not JSON: {error}; export the study again") from None
    version = content.get("format") if isinstance(content, dict) else None
    if version is None:
        raise DataError(f"{folder} is not an export of bln-search: {CONFIGURATION_FILE} has no format")
    if version != FORMAT:
        raise DataError(
            f"{path} is of format {version!r}, this version of bln-search reads {FORMAT}: install the version that "
            "wrote it, or export the study again"
        )
    try:
        return ExportDescription.model_validate_json(json.dumps(content))
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise DataError(f"{path} is damaged: {where}: {problem['msg']}; export the study again") from None


def _read_weights(path: Path, sha256: str) -> dict[str, Tensor]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"the weights {path} cannot be read: {error.strerror or error}") from None
    actual_sha256 = hashlib.sha256(content).hexdigest()
    if actual_sha256 != sha256:
        raise DataError(
            f"the weights {path} are damaged: their SHA-256 is {actual_sha256}, {CONFIGURATION_FILE} says "
            f"{sha256 or 'none'}; export the study again"
        )
    try:
        return read_safetensors(content)
    except SafetensorError as error:
        raise DataError(f"the weights {path} are not a safetensors file: {error}") from None
