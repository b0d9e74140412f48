"""The model card of an export (README.md): the network, how to load it, its figures and their limits."""

from __future__ import annotations

from bln_search.api.export.cards.sections import batch_size_limit_text, folding_text, parity_lines
from bln_search.api.export.check import Parity
from bln_search.api.export.description import ExportDescription, MetricValues
from bln_search.api.export.exported import WEIGHTS_FILE
from bln_search.api.export.runtimes import ONNX_PROGRAM, TORCH_PROGRAM
from bln_search.core.blend import Blend, parse_estimate
from bln_search.core.configuration import Source, Statistic
from bln_search.core.registry import MODELS
from bln_search.specs.sections.space import format_point

_SOURCE_TEXTS = {
    Source.POPULATION: "population value, fixed",
    Source.MEMORY: "the memory's value at the end of training, fixed",
    Source.ABSENT: "this method does not have it",
    Source.BLEND: "α · population value + (1 − α) · value",  # its origin follows
}


def model_card(export: ExportDescription, parity: Parity) -> str:
    """The text of the model card, as Markdown."""
    origin = export.origin
    method = export.normalization.method.upper()
    title = f"{export.model.name} with {method} on {origin.data['name']}, {export.row.configuration}"
    return "\n".join(
        [
            f"# {title}\n",
            f"A network of the study `{origin.study}`, arm `{origin.arm}`{_point_text(export)}, trained from seed "
            f"{origin.seed}; weights of epoch {origin.epoch}. Exported by bln-search "
            f"{export.versions['bln_search']}.\n",
            "## Loading\n",
            *_loading_lines(export),
            *_package_lines(export),
            *_input_lines(export),
            "## Where its statistics come from\n",
            *_statistic_sources(export),
            "## Figures\n",
            *_metric_lines(export),
            "## Agreement of the forms\n",
            *parity_lines(parity),
            "## Limits\n",
            *_limitation_lines(export),
        ]
    )


_LOADING = """\
```python
import bln_search
model = bln_search.load("this folder")  # pip install 'bln-search[train]'
logits = model(inputs)                  # inputs as the data set gives them
```
"""


def _loading_lines(export: ExportDescription) -> list[str]:
    """How the forms that the export has are loaded."""
    programs = []
    if TORCH_PROGRAM in export.files:
        programs.append(f'`torch.export.load("{TORCH_PROGRAM}").module()(inputs)`')
    if ONNX_PROGRAM in export.files:
        programs.append(f"`{ONNX_PROGRAM}`, input `inputs`, output `logits`")
    return [
        *([_LOADING] if WEIGHTS_FILE in export.files else []),
        *([f"Without bln-search: {', or '.join(programs)}.\n"] if programs else []),
    ]


def _package_lines(export: ExportDescription) -> list[str]:
    """The package that a plugin's model needs."""
    if export.model.name in MODELS or WEIGHTS_FILE not in export.files:
        return []
    return [
        f"`bln_search.load` needs the package that has the model `{export.model.name}`, too; the programs do not.\n"
    ]


def _point_text(export: ExportDescription) -> str:
    return f" ({format_point(export.origin.parameters)})" if export.origin.parameters else ""


def _input_lines(export: ExportDescription) -> list[str]:
    shape = ", ".join(str(extent) for extent in export.model.input_shape)
    names = f": {', '.join(export.model.class_names)}" if export.model.class_names else ""
    return [
        f"Inputs: float32, shape (N, {shape}), raw values; standardization (`{export.standardization}`, fitted on the "
        f"training examples) is inside. Outputs: logits, (N, {export.model.classes}){names}.\n"
    ]


def _statistic_sources(export: ExportDescription) -> list[str]:
    configuration = export.row.configuration
    batch_source_texts = {
        Statistic.BATCH_MEAN: "of the mini-batch at hand",
        Statistic.BATCH_DEVIATION: "of the mini-batch at hand",
        Statistic.FEATURE_MEAN: "of the example at hand",
        Statistic.FEATURE_DEVIATION: "of the example at hand",
    }
    lines = [
        f"- {statistic} ({statistic.description}): "
        f"{_source_text(configuration.source(statistic), batch_source_texts[statistic])}"
        for statistic in Statistic
    ]
    if export.row.estimate is not None:
        lines.append(f"\nPopulation estimate: `{export.row.estimate}`, correction `{export.normalization.correction}`.")
        lines += _blend_lines(parse_estimate(export.row.estimate)[1])
    return [*lines, "", *_batch_dependence(export)]


def _source_text(source: Source, present: str) -> str:
    """The source of a statistic; `present` is its origin without a stored value."""
    text = _SOURCE_TEXTS.get(source, present)
    return f"{text} {present}" if source is Source.BLEND else text


def _blend_lines(blend: Blend | None) -> list[str]:
    """The weight of the population in blended statistics."""
    if blend is None:
        return []
    number = str(blend).removeprefix("N")
    weight = f"{number}/({number} + m) with mini-batches of m examples" if blend.is_prior else number
    return [f"α = {weight}. Of deviations the squares are blended."]


def _batch_dependence(export: ExportDescription) -> list[str]:
    size, largest = export.row.batch_size, export.row.largest_batch_size
    if not export.row.deterministic:
        text = (
            "**The answer to an example depends on the other examples of its mini-batch.** The network runs on "
            f"mini-batches of any size; its figures hold for mini-batches of {size} in the order of the data set, "
            "not for other sizes or for mini-batches of similar examples."
        )
    elif largest is None:
        text = (
            "The answer to an example does not depend on the other examples of its mini-batch: mini-batches may have "
            "any size."
        )
    else:
        text = "The answer to an example depends on its place in the mini-batch."
    has_program = TORCH_PROGRAM in export.files or ONNX_PROGRAM in export.files
    folding = [folding_text(export.not_folded_because) + "\n"] if has_program else []
    return [text + batch_size_limit_text(largest) + "\n", *folding]


def _metric_lines(export: ExportDescription) -> list[str]:
    figures = export.figures
    header = (
        f"| split | loss, {figures.seeds} seeds | accuracy %, {figures.seeds} seeds | loss, this seed | accuracy % |"
    )
    lines = [header, "| --- | --- | --- | --- | --- |"]
    for split, seed_figure in figures.this_seed.items():
        mean_figure = figures.over_seeds.get(split)
        means = _format_means(mean_figure) if mean_figure else "– | –"
        lines.append(f"| {split} | {means} | {seed_figure.loss:.4f} | {100 * seed_figure.accuracy:.2f} |")
    return [*lines, "\nMean ± standard deviation over seeds; loss is cross-entropy in nats, "
            f"mini-batches of {export.row.batch_size}.\n"]  # fmt: skip


def _format_means(figure: MetricValues) -> str:
    loss, accuracy = f"{figure.loss:.4f}", f"{100 * figure.accuracy:.2f}"
    if figure.loss_deviation is not None and figure.accuracy_deviation is not None:
        loss += f" ± {figure.loss_deviation:.4f}"
        accuracy += f" ± {100 * figure.accuracy_deviation:.2f}"
    return f"{loss} | {accuracy}"


def _limitation_lines(export: ExportDescription) -> list[str]:
    data = export.origin.data
    fraction_text = "" if data["fraction"] == 1 else f", {100 * data['fraction']:g} % of it"
    return [
        f"- Trained on `{data['name']}`{fraction_text}; its figures say nothing about other data. "
        "Which row of a table is best depends on task, data and mini-batch size.",
        "- The seed exported is the best of its row on validation unless another was requested, so its own validation "
        "figures are optimistic; those over seeds estimate what the row achieves.",
        f"- Study digest `{export.origin.study_digest}`, checkpoint SHA-256 `{export.origin.checkpoint_sha256}`.",
        "",
    ]
