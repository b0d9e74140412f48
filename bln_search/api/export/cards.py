"""The model cards of exports (README.md): the network, how to load it, its statistics, figures and limits."""

from __future__ import annotations

from collections.abc import Mapping

from bln_search.api.export.card_metadata import OwnCardContent, render_study_front_matter
from bln_search.api.export.check import TOLERANCE, OutputParity
from bln_search.api.export.description import (
    ExportDescription,
    LossAndAccuracy,
    NormLayerDescription,
    OwnNetworkDescription,
    StudyNetworkDescription,
    TensorDescription,
    output_name_for_task,
)
from bln_search.api.export.files import ONNX_PROGRAM, PLAIN_FILE, STREAM_FILE, TORCH_PROGRAM, WEIGHTS_FILE
from bln_search.core.blend import parse_estimate_label
from bln_search.core.built_in_models import BUILT_IN_MODELS
from bln_search.core.code_identity import CODE_CHANGES
from bln_search.core.enums import NormalizedAxes
from bln_search.core.method import BATCH_STATISTICS, Statistic, StatisticSource, describe_origin
from bln_search.core.tasks import TaskName, describe_task
from bln_search.specs.sections.space import format_point


def render_study_model_card(export: StudyNetworkDescription, parity: OutputParity, ranking: str | None = None) -> str:
    """The text of the model card, as Markdown with front matter. ranking: the ranked table, as Markdown."""
    origin = export.origin
    method = export.normalization.method.upper()
    point = f" ({format_point(origin.parameters)})" if origin.parameters else ""
    title = f"{export.model.name} with {method} on {origin.data['name']}, {export.row.configuration}"
    return "\n".join(
        [
            render_study_front_matter(title, export, parity),
            f"# {title}\n",
            f"A network of the study `{origin.study}`, arm `{origin.arm}`{point}, trained on `{origin.data['name']}` "
            f"from seed {origin.seed}; weights of epoch {origin.epoch}. Exported by bln-search "
            f"{export.versions['bln_search']}.\n",
            "## Loading\n",
            *_loading_section_lines(export),
            *_input_and_output_lines(export),
            "## Where its statistics come from\n",
            *_statistic_source_lines(export),
            "## Figures\n",
            *_metrics_table_lines(export, parity),
            *_ranking_lines(ranking),
            *_output_parity_lines(parity),
            "## Limits\n",
            *_limitation_lines(export),
        ]
    )


_LOADING = """\
```python
import bln_search
model = bln_search.load("this folder")  # pip install 'bln-search'
outputs = model(inputs)                 # inputs as the data set gives them
```

From the Hugging Face Hub: `from_pretrained("user/name")` of `bln_search.integrations.huggingface_hub`.
"""


def _loading_section_lines(export: StudyNetworkDescription) -> list[str]:
    """How the forms that the export has are loaded."""
    programs = []
    if TORCH_PROGRAM in export.files:
        programs.append(f'`torch.export.load("{TORCH_PROGRAM}").module()(inputs)`')
    if ONNX_PROGRAM in export.files:
        programs.append(f"`{ONNX_PROGRAM}`, input `inputs`, output `{output_name_for_task(export.task)}`")
    is_of_plugin = export.model.name not in BUILT_IN_MODELS
    package = (
        f"`bln_search.load` needs the package that has the model `{export.model.name}`, too; the programs do not.\n"
    )
    return [
        *([_LOADING] if WEIGHTS_FILE in export.files else []),
        *([f"Without bln-search: {', or '.join(programs)}.\n"] if programs and not export.stream else []),
        *_stream_lines(export),
        *([package] if is_of_plugin and WEIGHTS_FILE in export.files else []),
    ]


_OUTPUTS = {
    TaskName.REGRESSION: "numbers in the units of the data set",
    TaskName.DENSITY: "negative log-likelihoods or their upper bounds in nats",
}
"""What networks of a task return; otherwise logits."""


def _input_and_output_lines(export: StudyNetworkDescription) -> list[str]:
    shape = ", ".join(str(extent) for extent in export.model.input_shape)
    names = f": {', '.join(export.model.class_names)}" if export.model.class_names else ""
    outputs = _OUTPUTS.get(export.task, "logits")
    return [
        f"Inputs: float32, shape (N, {shape}), raw values; standardization (`{export.standardization}`, fitted on the "
        f"training examples) is inside. Outputs: {outputs}, (N, {export.model.classes or 1}){names}.\n"
    ]


def _statistic_source_lines(export: StudyNetworkDescription) -> list[str]:
    configuration = export.row.configuration
    lines = []
    for statistic in Statistic:
        source = configuration.source_of(statistic)
        data = "the mini-batch at hand" if statistic in BATCH_STATISTICS else "the example at hand"
        is_fixed = source.reads_stored_value and not source.reads_mini_batch
        origin = describe_origin(source, data)
        lines.append(f"- {statistic} ({statistic.description}): {origin}{', fixed' if is_fixed else ''}")
    if export.row.estimate is not None:
        lines.append(f"\nPopulation estimate: `{export.row.estimate}`, correction `{export.normalization.correction}`.")
        blend = parse_estimate_label(export.row.estimate)[1]
        if blend is not None:
            number = str(blend).removeprefix("N")
            weight = f"{number}/({number} + m) with mini-batches of m examples" if blend.is_prior else number
            name, stored = ("moving average", "value before") if export.stream else ("blend", "population value")
            lines.append(
                f"A {name} is α · {stored} + (1 − α) · value at hand, α = {weight}. "
                "Of deviations the squares are blended."
            )
    note = (
        f" Its figures hold for mini-batches of {export.row.batch_size} in the order of the data set, not for other "
        "sizes or for mini-batches of similar examples."
    )
    row = export.row
    return [
        *lines,
        "",
        *_batch_dependence_lines(export, row.largest_batch_size, note, is_independent=row.deterministic),
    ]


def _metrics_table_lines(export: StudyNetworkDescription, parity: OutputParity) -> list[str]:
    """The figures of the row over seeds and of this seed, and what the exported program itself achieves."""
    figures = export.figures
    columns = [f"loss, {figures.seeds} seeds", f"accuracy %, {figures.seeds} seeds", "loss, this seed", "accuracy %"]
    lines = [["split", *columns], ["---"] * 5]
    for split, seed_figure in figures.this_seed.items():
        mean_figure = figures.over_seeds.get(split)
        means = _format_means_over_seeds(mean_figure) if mean_figure else ["–", "–"]
        lines.append([split, *means, f"{seed_figure.loss:.4f}", _format_accuracy(seed_figure.accuracy)])
    if not describe_task(export.task).has_accuracy:
        lines = [[cells[0], cells[1], cells[3]] for cells in lines]
    text = [
        *(f"| {' | '.join(cells)} |" for cells in lines),
        f"\nMean ± standard deviation over seeds; loss is {export.loss.removeprefix('mean ')}, "
        f"mini-batches of {export.row.batch_size}.\n",
    ]
    test = parity.test
    if test is not None:
        accuracy = "" if test.accuracy is None else f", accuracy {_format_accuracy(test.accuracy)} %"
        text.append(
            f"The exported program ({test.form}) was evaluated on the same {test.examples} examples of the test split: "
            f"loss {test.loss:.4f}{accuracy}.\n"
        )
    return text


def _format_means_over_seeds(figure: LossAndAccuracy) -> list[str]:
    loss, accuracy = f"{figure.loss:.4f}", _format_accuracy(figure.accuracy)
    if figure.loss_deviation is not None:
        loss += f" ± {figure.loss_deviation:.4f}"
    if figure.accuracy_deviation is not None:
        accuracy += f" ± {100 * figure.accuracy_deviation:.2f}"
    return [loss, accuracy]


def _format_accuracy(accuracy: float | None) -> str:
    return "–" if accuracy is None else f"{100 * accuracy:.2f}"


def _limitation_lines(export: StudyNetworkDescription) -> list[str]:
    data = export.origin.data
    fraction_text = "" if data["fraction"] == 1 else f", {100 * data['fraction']:g} % of it"
    return [
        f"- Trained on `{data['name']}`{fraction_text}; its figures say nothing about other data. "
        "Which row of a table is best depends on task, data and mini-batch size.",
        "- The seed exported is the best of its row on validation unless another was requested, so its own validation "
        "figures are optimistic; those over seeds estimate what the row achieves.",
        *(f"- {text}" for text in export.origin.trained_with.get(CODE_CHANGES, ())),
        f"- Study digest `{export.origin.study_digest}`, checkpoint SHA-256 `{export.origin.checkpoint_sha256}`.",
        "",
    ]


def _ranking_lines(ranking: str | None) -> list[str]:
    return [] if ranking is None else ["## The ranked table\n", ranking]


def render_own_network_model_card(export: OwnNetworkDescription, parity: OutputParity, content: OwnCardContent) -> str:
    """The text of the model card, as Markdown with front matter."""
    methods = [layer.method for layer in export.layers.values()]
    return "\n".join(
        [
            content.render_front_matter(export.network, methods),
            f"# {export.network}\n",
            f"A network with the inference configurations below. {_training_data_text(content)} Exported by bln-search "
            f"{export.versions['bln_search']}.\n",
            "## Loading\n",
            *_own_loading_lines(export),
            "## Inputs and outputs\n",
            *_tensor_description_lines(export.inputs, "input"),
            *_tensor_description_lines(export.outputs, "output"),
            "\nN is the mini-batch size, the same in all inputs.\n",
            "## Where its statistics come from\n",
            *_layer_table_lines(export.layers),
            "",
            *_batch_dependence_lines(export, export.largest_batch_size, is_independent=export.deterministic),
            *_ranking_lines(content.ranking),
            *_output_parity_lines(parity),
            "## Limits\n",
            "- bln-search saw example inputs of this network, not its training: quality on other data is not known.",
            *(
                ["- The row was chosen on the examples of its table, so its figures are optimistic."]
                * bool(content.ranking)
            ),
            "",
        ]
    )


def _training_data_text(content: OwnCardContent) -> str:
    if content.datasets:
        return f"Trained on {', '.join(f'`{name}`' for name in content.datasets)}."
    return "The author of this card should say on what it was trained."


def _own_loading_lines(export: OwnNetworkDescription) -> list[str]:
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
    if PLAIN_FILE in export.files:
        lines.append(
            f"- `{PLAIN_FILE}`: the same outputs with torch alone, in evaluation mode: "
            f'`network.load_state_dict(safetensors.torch.load_file("{PLAIN_FILE}"))`. The layers of this '
            f"`{export.network}` are `nn.BatchNorm` for population values, and `nn.LayerNorm` for the statistics of "
            "each example (over the whole layer `nn.GroupNorm` with one group), with the ε below."
        )
    stream = _stream_lines(export)
    return [*lines, *(["", *stream] if stream else []), "\nLoad files from sources that you trust only.\n"]


_STREAM = """\
Statistics of source E move with each mini-batch. What `bln_search.load` returns keeps their values, the stream, and
`bln_search.reset_stream(model)` begins another one. The programs have no state: they take the stream after the inputs,
and return the next one after the outputs. `stream` of `configuration.json` names its values in order.
"""

_TORCH_STREAM = """\
```python
import json
import torch
from safetensors.torch import load_file

first = load_file("{stream}")
stream = tuple(first[name] for name in json.load(open("configuration.json"))["stream"])
program = torch.export.load("{program}").module()
outputs, stream = program(inputs, stream)  # for each mini-batch; several inputs are a tuple or a dict
```
"""

_ONNX_STREAM = (
    "In `{program}` the inputs `stream.NAME` and the outputs `next_stream.NAME` have the same order. The first values "
    "are in `{stream}`.\n"
)


def _stream_lines(export: ExportDescription) -> list[str]:
    """How programs take and return the stream; nothing without moving statistics."""
    if not export.stream:
        return []
    return [
        _STREAM,
        *([_TORCH_STREAM.format(stream=STREAM_FILE, program=TORCH_PROGRAM)] if TORCH_PROGRAM in export.files else []),
        *([_ONNX_STREAM.format(stream=STREAM_FILE, program=ONNX_PROGRAM)] if ONNX_PROGRAM in export.files else []),
    ]


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


def _batch_dependence_lines(
    export: ExportDescription, largest_batch_size: int | None, note: str = "", *, is_independent: bool
) -> list[str]:
    """Whether outputs depend on the mini-batch, which may have a largest size; whether programs have affine steps."""
    if not is_independent:
        others = "on their number, and on earlier mini-batches" if export.stream else "and on their number"
        text = f"**The answer to an example depends on the other examples of its mini-batch, {others}.**{note}"
    elif largest_batch_size is None:
        text = "The answer to an example does not depend on the other examples of its mini-batch."
    else:
        text = "The answer to an example depends on its place in the mini-batch."
    size = (
        " Mini-batches may have any size."
        if largest_batch_size is None
        else " Each slot of the mini-batch has its own feature values: mini-batches have at most "
        f"{largest_batch_size} examples."
    )
    lines = [f"{text}{size}\n"]
    if export.has_program and export.folded:
        lines.append(
            "In `model.pt2` and `model.onnx` each normalization layer is one affine step y = x·scale + shift.\n"
        )
    elif export.has_program:
        lines.append(f"Normalization layers are not folded into affine steps: {export.not_folded_because}.\n")
    return lines


def _output_parity_lines(parity: OutputParity) -> list[str]:
    """The section with the differences of all forms at each mini-batch size."""
    lines = [
        "## Agreement of the forms\n",
        f"Largest difference from the network in PyTorch, over {parity.inputs}; the tolerance is {TOLERANCE:g} (of the "
        "largest output, if that is above 1):\n",
    ]
    for size in parity.sizes:
        differences = ", ".join(f"{form} {difference:.1e}" for form, difference in size.differences.items())
        lines.append(f"- mini-batches of {size.batch_size}: {differences or f'undefined, {size.reason}'}")
    return [*lines, ""]
