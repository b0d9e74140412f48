"""The model card of an export (README.md): the network, how to load it, its figures and their limits."""

from __future__ import annotations

from bln_search.api.export.cards.sections import (
    format_batch_size_limit,
    format_folding_sentence,
    output_parity_section_lines,
)
from bln_search.api.export.check import OutputParity
from bln_search.api.export.description import LossAndAccuracy, StudyNetworkDescription, output_name_for_task
from bln_search.api.export.exported import WEIGHTS_FILE
from bln_search.api.export.runtimes import ONNX_PROGRAM, TORCH_PROGRAM
from bln_search.core.blend import PopulationWeight, parse_estimate_label
from bln_search.core.built_in_models import BUILT_IN_MODELS
from bln_search.core.code_identity import CODE_CHANGES
from bln_search.core.method import Statistic, StatisticSource
from bln_search.core.tasks import TaskName, describe_task
from bln_search.specs.sections.space import format_point

_SOURCE_TEXTS = {
    StatisticSource.POPULATION: "population value, fixed",
    StatisticSource.MEMORY: "the memory's value at the end of training, fixed",
    StatisticSource.LAST_STEP: "the value of the last training step, fixed",
    StatisticSource.WITH_MINI_BATCH: "of the memory and the mini-batch together, weighted as in training",
    StatisticSource.ANALYTIC: "computed from the weights, fixed",
    StatisticSource.ABSENT: "this method does not have it",
    StatisticSource.BLEND: "α · population value + (1 − α) · value",  # its origin follows
}


def render_study_model_card(export: StudyNetworkDescription, parity: OutputParity) -> str:
    """The text of the model card, as Markdown."""
    origin = export.origin
    method = export.normalization.method.upper()
    title = f"{export.model.name} with {method} on {origin.data['name']}, {export.row.configuration}"
    return "\n".join(
        [
            f"# {title}\n",
            f"A network of the study `{origin.study}`, arm `{origin.arm}`{_format_search_point(export)}, trained "
            "from seed "
            f"{origin.seed}; weights of epoch {origin.epoch}. Exported by bln-search "
            f"{export.versions['bln_search']}.\n",
            "## Loading\n",
            *_loading_section_lines(export),
            *_plugin_package_lines(export),
            *_input_and_output_lines(export),
            "## Where its statistics come from\n",
            *_statistic_source_lines(export),
            "## Figures\n",
            *_metrics_table_lines(export),
            *_program_figure_lines(parity),
            "## Agreement of the forms\n",
            *output_parity_section_lines(parity),
            "## Limits\n",
            *_limitation_lines(export),
        ]
    )


_LOADING = """\
```python
import bln_search
model = bln_search.load("this folder")  # pip install 'bln-search[train]'
outputs = model(inputs)                 # inputs as the data set gives them
```
"""


def _loading_section_lines(export: StudyNetworkDescription) -> list[str]:
    """How the forms that the export has are loaded."""
    programs = []
    if TORCH_PROGRAM in export.files:
        programs.append(f'`torch.export.load("{TORCH_PROGRAM}").module()(inputs)`')
    if ONNX_PROGRAM in export.files:
        programs.append(f"`{ONNX_PROGRAM}`, input `inputs`, output `{output_name_for_task(export.task)}`")
    return [
        *([_LOADING] if WEIGHTS_FILE in export.files else []),
        *([f"Without bln-search: {', or '.join(programs)}.\n"] if programs else []),
    ]


def _plugin_package_lines(export: StudyNetworkDescription) -> list[str]:
    """The package that a plugin's model needs."""
    if export.model.name in BUILT_IN_MODELS or WEIGHTS_FILE not in export.files:
        return []
    return [
        f"`bln_search.load` needs the package that has the model `{export.model.name}`, too; the programs do not.\n"
    ]


def _format_search_point(export: StudyNetworkDescription) -> str:
    return f" ({format_point(export.origin.parameters)})" if export.origin.parameters else ""


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
    batch_source_texts = {
        Statistic.BATCH_MEAN: "of the mini-batch at hand",
        Statistic.BATCH_DEVIATION: "of the mini-batch at hand",
        Statistic.FEATURE_MEAN: "of the example at hand",
        Statistic.FEATURE_DEVIATION: "of the example at hand",
    }
    lines = [
        f"- {statistic} ({statistic.description}): "
        f"{_format_statistic_source(configuration.source_of(statistic), batch_source_texts[statistic])}"
        for statistic in Statistic
    ]
    if export.row.estimate is not None:
        lines.append(f"\nPopulation estimate: `{export.row.estimate}`, correction `{export.normalization.correction}`.")
        lines += _blend_weight_lines(parse_estimate_label(export.row.estimate)[1])
    return [*lines, "", *_batch_dependence_lines(export)]


def _format_statistic_source(source: StatisticSource, present: str) -> str:
    """The source of a statistic; `present` is its origin without a stored value."""
    text = _SOURCE_TEXTS.get(source, present)
    return f"{text} {present}" if source is StatisticSource.BLEND else text


def _blend_weight_lines(blend: PopulationWeight | None) -> list[str]:
    """The weight of the population in blended statistics."""
    if blend is None:
        return []
    number = str(blend).removeprefix("N")
    weight = f"{number}/({number} + m) with mini-batches of m examples" if blend.is_prior else number
    return [f"α = {weight}. Of deviations the squares are blended."]


def _batch_dependence_lines(export: StudyNetworkDescription) -> list[str]:
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
    folding = [format_folding_sentence(export.not_folded_because) + "\n"] if has_program else []
    return [text + format_batch_size_limit(largest) + "\n", *folding]


def _metrics_table_lines(export: StudyNetworkDescription) -> list[str]:
    figures = export.figures
    columns = [f"loss, {figures.seeds} seeds", f"accuracy %, {figures.seeds} seeds", "loss, this seed", "accuracy %"]
    lines = [["split", *columns], ["---"] * 5]
    for split, seed_figure in figures.this_seed.items():
        mean_figure = figures.over_seeds.get(split)
        means = _format_means_over_seeds(mean_figure) if mean_figure else ["–", "–"]
        lines.append([split, *means, f"{seed_figure.loss:.4f}", _format_accuracy(seed_figure.accuracy)])
    if not describe_task(export.task).has_accuracy:
        lines = [[cells[0], cells[1], cells[3]] for cells in lines]
    return [
        *(f"| {' | '.join(cells)} |" for cells in lines),
        f"\nMean ± standard deviation over seeds; loss is {export.loss.removeprefix('mean ')}, "
        f"mini-batches of {export.row.batch_size}.\n",
    ]


def _program_figure_lines(parity: OutputParity) -> list[str]:
    """What the exported program itself achieves."""
    test = parity.test
    if test is None:
        return []
    accuracy = "" if test.accuracy is None else f", accuracy {_format_accuracy(test.accuracy)} %"
    return [
        f"The exported program ({test.form}) was evaluated on the same {test.examples} examples of the test split: "
        f"loss {test.loss:.4f}{accuracy}.\n"
    ]


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
