"""Load the export of a network."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from bln_search.api.arguments import check_network_is_module
from bln_search.api.export.description import NormLayerDescription, OwnNetworkDescription, StudyNetworkDescription
from bln_search.api.export.files import (
    TORCH_PROGRAM,
    WEIGHTS_FILE,
    check_file_sha256,
    read_export_description,
    read_exported_stream,
    read_exported_weights,
)
from bln_search.api.export.runtimes import load_torch_program
from bln_search.api.export.stream import ProgramWithStream, run_torch_program
from bln_search.api.export.study_network import load_exported_study_network
from bln_search.core.enums import AffineSharing
from bln_search.core.errors import DataError, ModelError
from bln_search.norms import Normalization
from bln_search.norms.feature_layer import FeatureStatisticsLayer
from bln_search.norms.network.layers import get_norms_by_name


class TorchExportProgramModule(nn.Module):
    """A torch.export program as a module. It has the inputs and outputs of the exported network, without gradients.

    Attributes:
        program: The program.
    """

    def __init__(self, program: nn.Module) -> None:
        super().__init__()
        self.program = program
        self.training = False

    @torch.no_grad()
    def forward(self, *inputs: Tensor, **named: Tensor) -> Any:
        """Return the outputs of the exported network."""
        return self.program(*inputs, **named)

    def train(self, mode: bool = True) -> Self:  # noqa: FBT001, FBT002 - the signature of torch
        """Return this module in evaluation mode. Raises ModelError for training mode."""
        if mode:
            raise ModelError(
                "a loaded program cannot be trained: load the weights into your network, as in "
                "bln_search.load(folder, model=network)"
            )
        return self


def load(folder: str | Path, *, model: nn.Module | None = None) -> nn.Module:
    """Load an exported network, in evaluation mode.

    - Without `model`, the network of a study is built and gets its weights. It takes inputs as the data set provides
      them. Neither the study's database nor its data are needed.
    - Without `model`, your own network is its torch.export program, on the CPU. Your class is not needed. It keeps the
      stream of moving statistics from call to call; `bln_search.reset_stream` begins another one.
    - With `model`, your own network gets the exported weights, population values and configurations.

    Args:
        folder: What `export` or `bln-search export` wrote.
        model: An instance of your own network, converted like the exported one. It keeps its device.

    Returns:
        The network, or `model`.

    Raises:
        DataError: The folder is not an export, has another format, is damaged, or lacks the form that is needed; or
            `model` is another network. `model` is unchanged then.
        ModelError: `model` is not a network; or the network of a study needs a package that is not installed, or is
            described with more parameters than its weights have.

    Example:
        model = bln_search.load("folder")
        outputs = model(inputs)
    """
    path = Path(folder)
    description = read_export_description(path)
    if isinstance(description, StudyNetworkDescription):
        if model is not None:
            raise DataError(
                f"{path} is the export of a study, which builds its own network: call load({str(folder)!r})"
            )
        return load_exported_study_network(path, description)
    if model is not None:
        check_network_is_module(model, "load(folder, model=network)")
        return _load_weights_into_model(model, path, description)
    if TORCH_PROGRAM not in description.files:
        raise DataError(
            f"{path} was exported without a torch.export program: load the weights into your network, as in "
            'load(folder, model=network), or export it again with the format "torch_export"'
        )
    check_file_sha256(path / TORCH_PROGRAM, description.files)
    program = TorchExportProgramModule(load_torch_program(path / TORCH_PROGRAM))
    if not description.stream:
        return program
    return ProgramWithStream(program, run_torch_program, read_exported_stream(path, description))


def _load_weights_into_model(model: nn.Module, folder: Path, description: OwnNetworkDescription) -> nn.Module:
    """Load weights, population values and configurations into a network of the user."""
    if WEIGHTS_FILE not in description.files:
        raise DataError(
            f"{folder} was exported without weights: call load(folder), or export it again with the format "
            '"safetensors"'
        )
    state = read_exported_weights(folder, description.files)
    _check_layers_match_export(model, description)
    before = copy.deepcopy(model.state_dict())
    try:
        model.load_state_dict(state)
    except (RuntimeError, ModelError) as error:
        model.load_state_dict(before)
        raise DataError(
            f"{folder} is the export of another network than this {type(model).__name__}: {error}"
        ) from None
    return model.eval()


def _check_layers_match_export(model: nn.Module, description: OwnNetworkDescription) -> None:
    """Raise DataError unless the model has the normalization layers of the export."""
    try:
        layers = get_norms_by_name(model)
    except ModelError:
        layers = {}
    mismatched = sorted(layers.keys() ^ description.layers.keys())
    if mismatched:
        where = "the export" if mismatched[0] in layers else f"this {type(model).__name__}"
        raise DataError(
            f"{where} has no normalization layer {mismatched[0]}: build the network and convert it as before the export"
        )
    for name, layer in layers.items():
        actual, exported = map(_format_formula_options, (describe_norm_layer(layer), description.layers[name]))
        if actual != exported:
            raise DataError(
                f"the layer {name} of this {type(model).__name__} is {actual}, that of the export is {exported}: "
                "convert the network as before the export"
            )


def describe_norm_layer(layer: Normalization) -> NormLayerDescription:
    """Describe a normalization layer."""
    formula = layer.formula_variant
    semantics = next(
        semantics
        for semantics, variant in layer.formula_variants.items()
        if replace(variant, epsilon=formula.epsilon, unbiased=formula.unbiased) == formula
    )
    return NormLayerDescription(
        method=layer.method,
        semantics=semantics,
        epsilon=formula.epsilon,
        features=layer.num_features,
        feature_axis=layer.feature_axis,
        batch_size=layer.batch_size,
        configuration=layer.configuration,
        blend=None if layer.blend is None else str(layer.blend),
        axes=layer.normalized_axes,
        affine=layer.affine_sharing if isinstance(layer, FeatureStatisticsLayer) else AffineSharing.CHANNEL,
        unbiased=formula.unbiased,
    )


def _format_formula_options(layer: NormLayerDescription) -> str:
    """What the weights do not contain."""
    options = layer.model_dump(
        include={"method", "semantics", "epsilon", "features", "feature_axis", "axes", "affine", "unbiased"}
    )
    return ", ".join(f"{name} {value}" for name, value in options.items())
