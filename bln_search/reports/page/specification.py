"""Sections of the specification, the trials, the manifest, and the commands that reproduce the study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bln_search.core.blend import PopulationWeight
from bln_search.core.tasks import TaskName
from bln_search.reports.manifest import manifest_to_json
from bln_search.reports.page.blocks import MAX_TABLE_ROWS, Block, Code, DefinitionList, Paragraph, Section, Table
from bln_search.reports.page.context import StudyReportContext
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable
from bln_search.specs.records import TrialRecord
from bln_search.specs.sections.arm import ArmSpec
from bln_search.specs.sections.condition import ConditionSpec
from bln_search.specs.sections.evaluation import EvaluationSpec, TrainSplitSelection
from bln_search.specs.sections.external import ExternalSpec
from bln_search.specs.study import StudySpec
from bln_search.specs.study_yaml import render_study_yaml

_MAX_LISTED_NUMBERS = 20


def specification_section(context: StudyReportContext) -> Section:
    """The specification."""
    spec = context.study.spec
    blocks: list[Block] = [DefinitionList(list(_specification_facts(spec)))]
    if context.notes:
        blocks.append(Paragraph(f"Notes: {context.notes}"))
    title = "The study file" if spec.external is None else "The specification as YAML"
    return Section("specification", "Specification", [*blocks, Code(render_study_yaml(spec), folded=title)])


def _external_study_facts(spec: StudySpec, external: ExternalSpec) -> list[tuple[str, str]]:
    """Facts about networks that were trained elsewhere, whose training is unknown."""
    examples = ", ".join(f"{count:,} of {split}" for split, count in external.examples.items())
    return [
        ("Data", f"{spec.data.name}; examples: {examples}"),
        ("Network", spec.model.name),
        ("Method", spec.arms[0].method.value),
        ("Networks", f"{', '.join(network.name for network in external.networks)}, trained and evaluated elsewhere"),
        ("Evaluation", f"mini-batches of {_format_number_list(spec.evaluation.batch_sizes or ())}"),
        ("Loss", spec.loss_description.text),
        ("Ranked on", f"mean {spec.ranking.split} loss over networks{_ranking_condition_text(external)}"),
    ]


def _ranking_condition_text(external: ExternalSpec) -> str:
    if not external.ranking_condition:
        return ""
    others = f"; further conditions: {', '.join(external.conditions)}" if external.conditions else ""
    return f", under {external.ranking_condition}{others}"


def _specification_facts(spec: StudySpec) -> list[tuple[str, str]]:
    if spec.external is not None:
        return _external_study_facts(spec, spec.external)
    training, evaluation = spec.training, spec.evaluation
    sizes = evaluation.batch_sizes or (training.batch_size,)
    facts = [
        (
            "Data",
            f"{spec.data.name}, {_data_fraction_text(spec.data.fraction)}; held out for validation: "
            f"{spec.data.validation}",
        ),
        *_task_facts(spec),
        ("Network", _network_text(spec)),
        ("Arms", "; ".join(_arm_text(arm) for arm in spec.arms)),
        (
            "Training",
            f"{training.epochs} epochs in mini-batches of {training.batch_size}, {training.optimizer} with learning "
            f"rate {training.learning_rate:g}; weights kept: {training.checkpoint.value.replace('_', ' ')}",
        ),
        ("Seeds", _format_number_list(spec.all_seeds)),
        (
            "Evaluation",
            f"population {', '.join(evaluation.population)}; mini-batches of {_format_number_list(sizes)}; correction "
            f"{evaluation.correction.value}",
        ),
        *([("Splits", _splits_text(evaluation))] if evaluation.splits else []),
        *([("Blends", _weights_text("population", evaluation.blends))] if evaluation.blends else []),
        *([("Moving statistics", _weights_text("value before", evaluation.moving))] if evaluation.moving else []),
        *([("Conditions", "; ".join(map(_condition_text, evaluation.conditions)))] if evaluation.conditions else []),
        *([("Lengths of texts", _format_number_list(evaluation.lengths))] if evaluation.lengths else []),
        *([("Metrics", ", ".join(metric.label for metric in spec.metric_descriptions))] if evaluation.metrics else []),
        ("Ranked on", f"mean {spec.ranking.split} loss over seeds"),
    ]
    return facts + _search_facts(spec)


def _task_facts(spec: StudySpec) -> list[tuple[str, str]]:
    """The task and its loss; nothing for a classification."""
    task = spec.resolved_task
    if task.name is TaskName.CLASSIFICATION:
        return []
    accuracy = task.description.accuracy
    return [
        ("Task", task.name.replace("_", " ")),
        ("Loss", spec.loss_description.text),
        *([("Accuracy", f"fraction of examples {accuracy}")] if accuracy else []),
    ]


def _splits_text(evaluation: EvaluationSpec) -> str:
    of_train = (
        "all examples" if evaluation.train_examples is TrainSplitSelection.ALL else "as many examples as validation"
    )
    return f"validation, test, and train ({of_train}), which neither ranks nor selects"


def _weights_text(stored: str, weights: tuple[PopulationWeight, ...]) -> str:
    return f"weight of the {stored} {', '.join(map(str, weights))}"


def _condition_text(condition: ConditionSpec) -> str:
    return f"{condition.name} ({condition.corruption}, severity {condition.severity}, seed {condition.seed})"


def _data_fraction_text(fraction: float) -> str:
    return "all of it" if fraction == 1 else f"{fraction * 100:g} % of it"


def _network_text(spec: StudySpec) -> str:
    widths = spec.model.widths
    return spec.model.name if widths is None else f"{spec.model.name}, {' and '.join(map(str, widths))} wide"


def _arm_text(arm: ArmSpec) -> str:
    name = arm.label if arm.label == arm.method.value else f"{arm.label} ({arm.method.value})"
    options = "".join(f"{option} {value}, " for option, value in arm.changed_layer_options.items())
    return (
        f"{name}, {options}{arm.semantics.value} semantics, checkpoint selected under "
        f"{arm.checkpoint_selection_configuration}"
    )


def _search_facts(spec: StudySpec) -> list[tuple[str, str]]:
    facts = [("Varied", ", ".join(spec.space))] if spec.space else []
    if spec.search is not None:
        search = spec.search
        text = f"sampler {search.sampler.value}, pruner {search.pruner.value}, {search.trials} points per arm"
        if search.then_train:
            text += ", then the best point of each arm is trained with all seeds"
        facts.append(("Search", text))
    return facts


def _format_number_list(numbers: tuple[int, ...]) -> str:
    text = ", ".join(map(str, numbers[:_MAX_LISTED_NUMBERS]))
    return text if len(numbers) <= _MAX_LISTED_NUMBERS else f"{text} … ({len(numbers)} in all)"


def trials_section(context: StudyReportContext) -> Section:
    """Every trial with its state; trials with a reason for their state first."""
    counts = Counter(trial.state.value for trial in context.trials)
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(counts.items())) or "none yet"
    blocks: list[Block] = [Paragraph(f"{len(context.trials):,} trials: {states}.")]
    failed = [trial for trial in context.trials if trial.reason]
    more = f"All of them: bln-search show {context.study.name} --format csv"
    if failed:
        reasons = Column("Reason", [f"{trial.state.value}: {trial.reason}" for trial in failed])
        blocks.append(Table(FittedTable([*_trial_columns(failed), reasons], "Trials that did not finish"), more))
    columns = [*_trial_columns(context.trials), *_result_columns(context.trials)]
    return Section("trials", "Trials", [*blocks, Table(FittedTable(columns, "Every trial"), more, folded=True)])


def _trial_columns(trials: Sequence[TrialRecord]) -> list[Column]:
    return [
        Column("Trial", [str(trial.id) for trial in trials], CellKind.NUMBER),
        Column("Arm", [trial.arm for trial in trials]),
        Column("Parameters", [trial.point_label or "–" for trial in trials]),
        Column("Seed", [str(trial.seed) for trial in trials], CellKind.NUMBER),
    ]


def _result_columns(trials: Sequence[TrialRecord]) -> list[Column]:
    checkpoints = [trial.checkpoint for trial in trials]
    losses = ["–" if checkpoint is None else f"{checkpoint.validation_loss:.4f}" for checkpoint in checkpoints]
    epochs = ["–" if checkpoint is None else str(checkpoint.epoch) for checkpoint in checkpoints]
    return [
        Column("State", [trial.state.value for trial in trials]),
        Column("Kept epoch", epochs, CellKind.NUMBER),
        Column("Validation loss", losses, CellKind.NUMBER),
        Column("Checkpoint", ["–" if checkpoint is None else checkpoint.file for checkpoint in checkpoints]),
    ]


def manifest_section(context: StudyReportContext) -> Section:
    """Seeds, versions, hardware and hashes; for a large study those of its first trials."""
    content = context.manifest
    data = content["data"]["sha256"] or "unknown"
    blocks: list[Block] = [
        Paragraph(
            f"Written at {content['written_at']} by bln-search {content['written_by'].get('bln_search')}, revision "
            f"{content['written_by'].get('git_revision') or 'unknown'}. SHA-256 of the data: {data}."
        )
    ]
    shortened = dict(content)
    if len(content["trials"]) > MAX_TABLE_ROWS:
        shortened["trials"] = content["trials"][:MAX_TABLE_ROWS]
        blocks.append(
            Paragraph(
                f"The first {MAX_TABLE_ROWS:,} of {len(content['trials']):,} trials are shown. "
                f"All of them: bln-search manifest {context.study.name}"
            )
        )
    blocks.append(Code(manifest_to_json(shortened), folded="The manifest"))
    return Section("manifest", "Manifest", blocks)


def reproduction_section(context: StudyReportContext) -> Section:
    """The commands that reproduce the study."""
    name = context.study.name
    commands = (
        f"bln-search run {name}.yaml --data DIR\nbln-search leaderboard {name}\n"
        f"bln-search manifest {name} --output {name}.json\nbln-search report {name} --output {name}.html\n"
    )
    text = f"Save the study file above as {name}.yaml; DIR is the folder of data sets."
    return Section("reproduce", "How to reproduce", [Paragraph(text), Code(commands)])
