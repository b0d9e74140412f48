"""The model card (README.md) of the export of a user's own network."""

from __future__ import annotations

from collections.abc import Mapping

from bln_search.api.export.cards.sections import (
    format_batch_size_limit,
    format_folding_sentence,
    output_parity_section_lines,
)
from bln_search.api.export.check import OutputParity
from bln_search.api.export.description import NormLayerDescription, OwnNetworkDescription, TensorDescription
from bln_search.api.export.exported import WEIGHTS_FILE
from bln_search.api.export.runtimes import ONNX_PROGRAM, TORCH_PROGRAM
from bln_search.core.enums import NormalizedAxes
from bln_search.core.method import StatisticSource


def render_own_network_model_card(export: OwnNetworkDescription, parity: OutputParity) -> str:
    """The text of the model card, as Markdown."""
    return "\n".join(
        [
            f"# {export.network}\n",
            f"A network with the inference configurations below. Exported by bln-search "
            f"{export.versions['bln_search']}.\n",
            "## Loading\n",
            *_loading_section_lines(export),
            "## Inputs and outputs\n",
            *_tensor_description_lines(export.inputs, "input"),
            *_tensor_description_lines(export.outputs, "output"),
            "\nN is the mini-batch size, the same in all inputs.\n",
            "## Where its statistics come from\n",
            *_layer_table_lines(export.layers),
            "",
            _batch_dependence_text(export) + "\n",
            *(
                [format_folding_sentence(export.not_folded_because) + "\n"]
                if _has_torch_or_onnx_program(export)
                else []
            ),
            "## Agreement of the forms\n",
            *output_parity_section_lines(parity),
        ]
    )


def _has_torch_or_onnx_program(export: OwnNetworkDescription) -> bool:
    return TORCH_PROGRAM in export.files or ONNX_PROGRAM in export.files


def _loading_section_lines(export: OwnNetworkDescription) -> list[str]:
    """How each form is loaded."""
    lines = []
    if TORCH_PROGRAM in export.files:
        lines.append(
            f'- `{TORCH_PROGRAM}`: `bln_search.load("this folder")` returns a module that needs no class of yours. '
            f'Without bln-search: `torch.export.load("{TORCH_PROGRAM}").module()`.'
        )
    if ONNX_PROGRAM in export.files:
        lines.append(f"- `{ONNX_PROGRAM}`: any ONNX runtime.")
    if WEIGHTS_FILE in export.files:
        lines.append(
            f'- `{WEIGHTS_FILE}`: `bln_search.load("this folder", model=network)` puts weights, population values and '
            f"configurations into your own instance of `{export.network}`, converted as before the export."
        )
    return [*lines, "\nLoad files from sources that you trust only.\n"]


def _tensor_description_lines(tensors: Mapping[str, TensorDescription], kind: str) -> list[str]:
    return [
        f"- {kind} `{name}`: {tensor.dtype}, shape "
        f"({', '.join('N' if length is None else str(length) for length in tensor.shape)}"
        f"{',' if len(tensor.shape) == 1 else ''})"
        for name, tensor in tensors.items()
    ]


def _layer_table_lines(layers: Mapping[str, NormLayerDescription]) -> list[str]:
    """A table of the layers with their configurations, and the legend of its letters."""
    letters = dict.fromkeys(letter for layer in layers.values() for letter in str(layer.configuration))
    legend = ", ".join(f"{letter}: {StatisticSource(letter).label}" for letter in letters)
    rows = [
        f"| `{name or 'the network'}` | {layer.method.upper()}"
        f"{' over the whole layer' if layer.axes is NormalizedAxes.LAYER else ''} | `{layer.configuration}`"
        f"{f', weight {layer.blend}' if layer.blend else ''} | {layer.epsilon:g} |"
        for name, layer in layers.items()
    ]
    return [
        "| layer | method | configuration | ε |",
        "| --- | --- | --- | --- |",
        *rows,
        "\nThe four letters of a configuration are the sources of the mini-batch mean, the mini-batch deviation, the "
        f"feature mean and the feature deviation ({legend}). Feature statistics that are not of the population are "
        "computed from the example alone.",
    ]


def _batch_dependence_text(export: OwnNetworkDescription) -> str:
    largest = export.largest_batch_size
    if not export.deterministic:
        text = "**The output for an example depends on the other examples of its mini-batch, and on their number.**"
    elif largest is None:
        text = "The output for an example does not depend on the other examples of its mini-batch."
    else:
        text = "The output for an example depends on its place in the mini-batch."
    if largest is None:
        text += " Mini-batches may have any size."
    return text + format_batch_size_limit(largest)
