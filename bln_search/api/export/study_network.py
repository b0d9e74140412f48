"""The exported network of a study: with the standardization of its data, it takes raw inputs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bln_search.api.export.description import StudyNetworkDescription
from bln_search.api.export.files import CONFIGURATION_FILE, WEIGHTS_FILE, read_exported_weights
from bln_search.core.blend import parse_estimate_label
from bln_search.core.errors import DataError
from bln_search.core.tasks import TaskName
from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search.norms.network.layers import get_norms_by_name


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
        size = sum(value.numel() for value in state.values())
        network = build_network_with_initial_weights(description, most_parameters=size)
        exported = ExportedNetwork(standardization, network, units)
        exported.load_state_dict(state)
    except (KeyError, RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{folder / WEIGHTS_FILE} does not belong to the network of {CONFIGURATION_FILE}: {error}"
        ) from None
    _check_configurations_match_row(folder, description, exported.network)
    return exported.eval()


def _check_configurations_match_row(folder: Path, description: StudyNetworkDescription, network: nn.Module) -> None:
    """Raise DataError unless every layer has the configuration of the described row, and its weight of blends."""
    row = description.row
    blend = None if row.estimate is None else parse_estimate_label(row.estimate)[1]
    described = f"{row.configuration}{'' if blend is None else f' with weight {blend}'}"
    for name, layer in get_norms_by_name(network).items():
        written = f"{layer.configuration}{'' if layer.blend is None else f' with weight {layer.blend}'}"
        if written != described:
            raise DataError(
                f"{folder / CONFIGURATION_FILE} says {described}, the layer {name} was written under {written}: one of "
                "the two was changed; export the network again"
            )


def build_network_with_initial_weights(
    description: StudyNetworkDescription, *, most_parameters: int | None = None
) -> nn.Module:
    """Build the described network without its weights.

    Args:
        description: Of the network.
        most_parameters: How many parameters it may have; None for any.

    Raises:
        ModelError: The model does not have these options, or more parameters.
    """
    model, normalization = description.model, description.normalization
    norm = partial(
        make_norm,
        normalization.method,
        semantics=normalization.semantics,
        epsilon=normalization.epsilon,
        batch_size=normalization.batch_size,
        **normalization.options,
    )
    return build_model(
        model.name,
        model.input_shape,
        model.classes,
        norm,
        seed=0,
        options=model.options,
        most_parameters=most_parameters,
    )
