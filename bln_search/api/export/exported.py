"""The exported network of a study, and the files of an export."""

from __future__ import annotations

import json
from collections.abc import Mapping
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

from bln_search.api.export.description import (
    BLEND_FORMAT,
    NETWORK_FORMAT,
    NETWORK_OPTIONS_FORMAT,
    STUDY_FORMAT,
    STUDY_OPTIONS_FORMAT,
    TASK_FORMAT,
    OwnNetworkDescription,
    StudyNetworkDescription,
)
from bln_search.core.blend import PopulationWeight, parse_estimate_label
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import DataError
from bln_search.core.files.atomic import compute_file_sha256
from bln_search.core.tasks import TaskName
from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search.norms.network.layers import get_norms_by_name

WEIGHTS_FILE, CONFIGURATION_FILE = "model.safetensors", "configuration.json"

_DESCRIPTIONS: dict[object, type[StudyNetworkDescription] | type[OwnNetworkDescription]] = {
    STUDY_FORMAT: StudyNetworkDescription,
    NETWORK_FORMAT: OwnNetworkDescription,
    BLEND_FORMAT: StudyNetworkDescription,
    STUDY_OPTIONS_FORMAT: StudyNetworkDescription,
    NETWORK_OPTIONS_FORMAT: OwnNetworkDescription,
    TASK_FORMAT: StudyNetworkDescription,
}


class _MeanAndDeviation(nn.Module):
    """Mean and deviation in double precision, as buffers."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: NDArray[np.float64], deviation: NDArray[np.float64]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.from_numpy(mean.copy()))
        self.register_buffer("deviation", torch.from_numpy(deviation.copy()))


class InputStandardizer(_MeanAndDeviation):
    """(x − mean)/deviation, the standardization of the study, in double precision as in training.

    Input (N, ...) of any numeric type; output of the same shape, float32.

    Attributes:
        mean: float64, (1, ...), broadcastable to an input.
        deviation: float64, of the shape of `mean`.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return the standardized inputs."""
        return ((x.to(self.mean.dtype) - self.mean) / self.deviation).float()


class TargetDestandardizer(_MeanAndDeviation):
    """y·deviation + mean: from standardized targets to the units of the data set, in double precision.

    Input (N, numbers), output of the same shape, float32.

    Attributes:
        mean: float64, (1, numbers), of the training targets.
        deviation: float64, (1, numbers), of the training targets.
    """

    def forward(self, y: Tensor) -> Tensor:
        """Return the outputs in the units of the data set."""
        return (y.to(self.mean.dtype) * self.deviation + self.mean).float()


class ExportedNetwork(nn.Module):
    """A network that takes raw inputs, as the data set provides them.

    Input (N, *input_shape), float32 or uint8; output (N, classes), logits, or (N, numbers) of a regression.

    Attributes:
        standardization: Standardizes the inputs.
        network: Maps standardized inputs to outputs.
        units: Gives the outputs of a regression their units; the identity for other tasks.
    """

    def __init__(self, standardization: InputStandardizer, network: nn.Module, units: nn.Module | None = None) -> None:
        super().__init__()
        self.standardization = standardization
        self.network = network
        self.units = units or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, (N, classes), or numbers, (N, numbers)."""
        outputs: Tensor = self.units(self.network(self.standardization(x)))
        return outputs


def load_exported_study_network(folder: Path, description: StudyNetworkDescription) -> ExportedNetwork:
    """Build the network of a study's export with its weights, in evaluation mode on the CPU.

    Raises DataError if the folder is damaged.
    """
    state = read_exported_weights(folder, description.files)
    try:
        standardization = InputStandardizer(
            *(state[f"standardization.{name}"].numpy() for name in ("mean", "deviation"))
        )
        units = None
        if description.task is TaskName.REGRESSION:
            units = TargetDestandardizer(*(state[f"units.{name}"].numpy() for name in ("mean", "deviation")))
        exported = ExportedNetwork(standardization, build_network_with_initial_weights(description), units)
        exported.load_state_dict(state)
    except (KeyError, RuntimeError) as error:
        raise DataError(
            f"{folder / WEIGHTS_FILE} does not belong to the network of {CONFIGURATION_FILE}: {error}"
        ) from None
    _check_configurations_match_row(folder, description, exported.network)
    return exported.eval()


def _check_configurations_match_row(folder: Path, description: StudyNetworkDescription, network: nn.Module) -> None:
    """Raise DataError unless every layer has the configuration of the described row, and its weight of blends."""
    row = description.row
    described = row.configuration, None if row.estimate is None else parse_estimate_label(row.estimate)[1]
    for name, layer in get_norms_by_name(network).items():
        written = layer.configuration, layer.blend
        if written != described:
            raise DataError(
                f"{folder / CONFIGURATION_FILE} says {_format_configuration_and_blend(*described)}, the layer "
                f"{name} was written "
                f"under {_format_configuration_and_blend(*written)}: one of the two was changed; export the network "
                "again"
            )


def _format_configuration_and_blend(configuration: InferenceConfiguration, blend: PopulationWeight | None) -> str:
    return f"{configuration}{'' if blend is None else f' with weight {blend}'}"


def build_network_with_initial_weights(description: StudyNetworkDescription) -> nn.Module:
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


def read_export_description(folder: Path) -> StudyNetworkDescription | OwnNetworkDescription:
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
        raise DataError(f"{path} is damaged, it is not JSON: {error}; export the network again") from None
    number = content.get("format") if isinstance(content, dict) else None
    if number is None:
        raise DataError(f"{folder} is not an export of bln-search: {CONFIGURATION_FILE} has no format")
    if not isinstance(number, int) or number not in _DESCRIPTIONS:
        raise DataError(
            f"{path} is of format {number!r}, this version of bln-search reads "
            f"{', '.join(map(str, _DESCRIPTIONS))}: install the version that wrote it, or export the network again"
        )
    try:
        return _DESCRIPTIONS[number].model_validate_json(json.dumps(content))
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise DataError(f"{path} is damaged: {where}: {problem['msg']}; export the network again") from None


def read_exported_weights(folder: Path, files: Mapping[str, str]) -> dict[str, Tensor]:
    """Read the weights. files: SHA-256 of each file. Raises DataError if they are missing or damaged."""
    check_file_sha256(folder / WEIGHTS_FILE, files)
    try:
        return read_safetensors((folder / WEIGHTS_FILE).read_bytes())
    except SafetensorError as error:
        raise DataError(f"{folder / WEIGHTS_FILE} is not a safetensors file: {error}") from None


def check_file_sha256(path: Path, files: Mapping[str, str]) -> None:
    """Raise DataError unless the file has the SHA-256 that `files` states for its name."""
    try:
        actual_sha256 = compute_file_sha256(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    sha256 = files.get(path.name)
    if actual_sha256 != sha256:
        raise DataError(
            f"{path} is damaged: its SHA-256 is {actual_sha256}, {CONFIGURATION_FILE} says {sha256 or 'none'}; export "
            "the network again"
        )
