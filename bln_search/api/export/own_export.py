"""Export a user's own network with its configuration."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from bln_search.adaptation.adaptive_network import AdaptiveNetwork
from bln_search.api.apply import Choice, apply_configuration
from bln_search.api.arguments import ExportFormatName, check_network_is_module
from bln_search.api.export.card_figures import make_own_card_content
from bln_search.api.export.cards import render_own_network_model_card
from bln_search.api.export.description import (
    NETWORK_FORMAT,
    NETWORK_OPTIONS_FORMAT,
    NETWORK_STREAM_FORMAT,
    OwnNetworkDescription,
    TensorDescription,
    describe_export_before_writing,
)
from bln_search.api.export.loading import describe_norm_layer, load
from bln_search.api.export.passes import ExampleInputs, flatten_outputs_by_name, parse_example_inputs
from bln_search.api.export.stream import initial_stream
from bln_search.api.export.writing import (
    ExportPlan,
    check_export_possible,
    find_batch_size_limit,
    write_and_compare_export,
)
from bln_search.api.inputs.network_calls import find_failing_layer
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.core.enums import ExportFormat, parse_enum
from bln_search.core.errors import BatchDependenceWarning, BlnSearchError, ExportError
from bln_search.core.method import Method
from bln_search.norms.network.copying import copy_network
from bln_search.norms.network.layer_calls import collect_called_layers
from bln_search.norms.network.layers import get_norms_by_name
from bln_search.norms.normalization_base import NormalizationBase

_INPUTS_TEXT = "the example inputs, repeated where a mini-batch has more examples"
_REMEDY = (
    "export another configuration, or the network in double precision if its outputs are sensitive to rounding errors"
)


@dataclass(frozen=True)
class ExportReport:
    """What `export` wrote; printing it prints one sentence.

    Attributes:
        folder: The folder.
        files: The SHA-256 of each form, by file name.
        is_independent: Whether the output for an example is independent of the rest of the mini-batch and of its
            position in it.
        is_folded: Whether the programs have one affine step in place of each normalization layer.
        largest_difference: The largest difference of the outputs of a form from those of the network.
    """

    folder: Path
    files: Mapping[str, str]
    is_independent: bool
    is_folded: bool
    largest_difference: float

    def __str__(self) -> str:
        dependence = "independent of" if self.is_independent else "dependent on"
        return (
            f"{self.folder}: {', '.join(self.files)}; outputs differ from those of the network by at most "
            f"{self.largest_difference:.1e} and are {dependence} the mini-batch"
        )


def export(
    network: nn.Module,
    folder: str | Path,
    *,
    example_inputs: Tensor | Sequence[Tensor] | Mapping[str, Tensor],
    configuration: Choice | None = None,
    formats: Iterable[ExportFormatName | ExportFormat] = ("safetensors", "torch_export", "onnx"),
    overwrite: bool = False,
    ranked: RankedConfigurations | None = None,
    metadata: Mapping[str, object] | None = None,
) -> ExportReport:
    """Write your own network with its configuration into a folder, atomically.

    The folder gets the weights with the population values in use, a torch.export program, an ONNX program, a comparison
    of their outputs with those of the network, and a model card. The network is not changed.

    Args:
        network: A network with normalization layers of bln-search.
        folder: The target; it may be new, empty, or an earlier export.
        example_inputs: A few examples: the input of the forward pass, a tuple of its inputs, or its inputs by the name
            of the argument. They are tensors with examples on the first axis.
        configuration: As for `apply_configuration`; by default the configuration that the network has.
        formats: What is written: `safetensors`, `torch_export` and `onnx`, which needs the extra `export`.
        overwrite: Replace an earlier export.
        ranked: The table of `configuration`, for the model card: verdict, first rows, and figures of the exported row.
        metadata: Keys of the model card's front matter as the Hugging Face Hub specifies them, such as `license`. With
            `pipeline_tag` and `datasets` the figures of the exported row are a `model-index`.

    Returns:
        What was written.

    Raises:
        MissingPackageError: The extra `export` is not installed.
        ExportError: The folder has other content, the network cannot be exported (the message names the module), or two
            forms compute different outputs. Nothing is written.
        ModelError: The network has no normalization layers, or the configuration does not belong to it.
        DataError: The example inputs are not tensors with examples on the first axis.
        StorageFullError: The disk is full.
        ValueError: There is no such format, `ranked` is no table of one condition, `configuration` is a row of another
            table, or `metadata` has a value that YAML does not have.
        TypeError: `formats` is not a list.

    Example:
        inputs, targets = next(iter(validation_loader))
        print(bln_search.export(model, "folder", example_inputs=inputs, configuration=ranked.recommended))
        outputs = bln_search.load("folder")(inputs)
    """
    check_network_is_module(network, "export(network, folder, example_inputs=inputs)")
    if any(isinstance(module, AdaptiveNetwork) for module in network.modules()):
        raise ExportError(
            "a network that chooses its statistics online is written as a program: "
            'torch.export.save(network.to_program(inputs), "chooser.pt2")'
        )
    kinds = _parse_export_formats(formats)
    card = make_own_card_content(configuration, ranked, metadata)
    path = Path(folder)
    check_export_possible(path, kinds, overwrite=overwrite)
    examples = parse_example_inputs(example_inputs, network)
    get_norms_by_name(network)
    exported = _copy_with_configuration(network, configuration)
    limit = find_batch_size_limit(exported)
    sizes = dict.fromkeys((1, 2, examples.num_examples, 2 * examples.num_examples))
    sizes_in_limit = [size for size in sizes if not limit or size <= limit]
    plan = ExportPlan(
        network=exported,
        description=_describe_own_network(exported, examples, sizes_in_limit, limit),
        card=partial(render_own_network_model_card, content=card),
        examples=examples,
        inputs_text=_INPUTS_TEXT,
        sizes=sizes_in_limit,
        formats=kinds,
        reload=partial(_copy_with_weights_of_folder, exported),
        output_name="outputs",
        remedy=_REMEDY,
    )
    description, parity = write_and_compare_export(path, plan, overwrite=overwrite)
    return ExportReport(
        folder=path,
        files=description.files,
        is_independent=description.deterministic and description.largest_batch_size is None,
        is_folded=description.folded,
        largest_difference=parity.largest_difference,
    )


def _parse_export_formats(formats: object) -> frozenset[ExportFormat]:
    if isinstance(formats, str) or not isinstance(formats, Iterable):
        raise TypeError(f'formats is a list of formats, as in ["safetensors", "onnx"], not {formats!r}')
    parsed = frozenset(parse_enum(ExportFormat, name, "export format") for name in formats)
    if not parsed:
        raise ValueError(f"formats is empty: choose from {', '.join(ExportFormat)}")
    return parsed


def _copy_with_configuration(network: nn.Module, configuration: Choice | None) -> nn.Module:
    """A copy on the CPU in evaluation mode, with the configuration and the population values that it reads."""
    try:
        exported = copy_network(network).cpu().eval()
    except (RuntimeError, TypeError) as error:
        raise ExportError(
            f"this {type(network).__name__} cannot be copied, so it cannot be exported: {error}"
        ) from None
    if configuration is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BatchDependenceWarning)  # the report and the model card say it
            apply_configuration(exported, configuration)
    for layer in get_norms_by_name(exported).values():
        layer.drop_unused_populations()
    return exported


def _describe_own_network(
    network: nn.Module, examples: ExampleInputs, sizes: Sequence[int], largest: int | None
) -> OwnNetworkDescription:
    """Describe the export, without folding and files."""
    layers = get_norms_by_name(network)
    with collect_called_layers(layers.values()) as reached:
        outputs = [_run_network_and_name_outputs(network, examples.with_num_examples(size)) for size in sizes]
    inputs = [dict(zip(examples.names, examples.with_num_examples(size).tensors, strict=True)) for size in sizes]
    described = {name: describe_norm_layer(layer) for name, layer in layers.items()}
    has_options = any(layer.has_options_of_newer_formats for layer in described.values())
    number = NETWORK_OPTIONS_FORMAT if has_options else NETWORK_FORMAT
    stream = tuple(initial_stream(network))
    return OwnNetworkDescription(
        format=NETWORK_STREAM_FORMAT if stream else number,
        stream=stream,
        network=type(network).__name__,
        inputs=_describe_tensors_over_batch_sizes(inputs),
        named_inputs=bool(examples.named),
        outputs=_describe_tensors_over_batch_sizes(outputs),
        layers=described,
        deterministic=all(_is_layer_batch_independent(layer) for layer in reached),
        largest_batch_size=largest,
        **describe_export_before_writing(),
    )


@torch.no_grad()
def _run_network_and_name_outputs(network: nn.Module, examples: ExampleInputs) -> dict[str, Tensor]:
    """The outputs of a forward pass. Raises ExportError, which names the module, if it fails."""
    try:
        outputs = examples.call_with_copies(network)
    except BlnSearchError:
        raise
    except Exception as error:
        place = find_failing_layer(error, network)
        raise ExportError(
            f"the forward pass of this {type(network).__name__} fails for a mini-batch of {examples.num_examples} of "
            f"the example inputs{f' {place}' if place else ''}: {error}; nothing was written. The first axis of "
            "example_inputs is that of the examples, as in inputs[:10], and an exported network takes mini-batches of "
            "any size"
        ) from error
    return flatten_outputs_by_name(outputs)


def _describe_tensors_over_batch_sizes(by_size: Sequence[Mapping[str, Tensor]]) -> dict[str, TensorDescription]:
    """Describe tensors. by_size: the same tensors at each size, on which an axis of None depends."""
    descriptions = {}
    for name, tensor in by_size[0].items():
        lengths = zip(*(tensors[name].shape for tensors in by_size), strict=True)
        shape = tuple(of_axis[0] if len(set(of_axis)) == 1 else None for of_axis in lengths)
        descriptions[name] = TensorDescription(dtype=str(tensor.dtype).removeprefix("torch."), shape=shape)
    return descriptions


def _is_layer_batch_independent(layer: NormalizationBase) -> bool:
    """Whether the layer treats an example in the same way in every mini-batch."""
    has_fixed_weights = layer.method is not Method.BLN or layer.batch_size is not None
    return layer.configuration.is_deterministic and has_fixed_weights


def _copy_with_weights_of_folder(exported: nn.Module, folder: Path) -> nn.Module:
    """The network with the weights of a folder; what the weights do not set is NaN."""
    reloaded = copy.deepcopy(exported)
    with torch.no_grad():
        for parameter in reloaded.parameters():
            if parameter.is_floating_point():
                parameter.fill_(torch.nan)
    return load(folder, model=reloaded)
