"""Section of the specification: a summary, and the study file."""

from __future__ import annotations

from bln_search.core.blend import Blend
from bln_search.reports.page.blocks import Block, Code, DefinitionList, Paragraph, Section
from bln_search.reports.page.context import ReportContext
from bln_search.specs.sections.arm import ArmSpec
from bln_search.specs.sections.condition import ConditionSpec
from bln_search.specs.sections.evaluation import EvaluationSpec, TrainExamples
from bln_search.specs.sections.external import ExternalSpec
from bln_search.specs.study import StudySpec
from bln_search.specs.study_yaml import study_yaml

_MAX_LISTED_NUMBERS = 20


def specification_section(context: ReportContext) -> Section:
    """The specification."""
    spec = context.study.spec
    blocks: list[Block] = [DefinitionList(list(_specification_rows(spec)))]
    if context.notes:
        blocks.append(Paragraph(f"Notes: {context.notes}"))
    title = "The study file" if spec.external is None else "The specification as YAML"
    return Section("specification", "Specification", [*blocks, Code(study_yaml(spec), folded=title)])


def _external_rows(spec: StudySpec, external: ExternalSpec) -> list[tuple[str, str]]:
    """Facts about networks that were trained elsewhere, whose training is unknown."""
    examples = ", ".join(f"{count:,} of {split}" for split, count in external.examples.items())
    return [
        ("Data", f"{spec.data.name}; examples: {examples}"),
        ("Network", spec.model.name),
        ("Method", spec.arms[0].method.value),
        ("Networks", f"{', '.join(network.name for network in external.networks)}, trained and evaluated elsewhere"),
        ("Evaluation", f"mini-batches of {_number_list(spec.evaluation.batch_sizes or ())}"),
        ("Loss", spec.loss.text),
        ("Ranked on", f"mean {spec.ranking.split} loss over networks{_ranking_condition(external)}"),
    ]


def _ranking_condition(external: ExternalSpec) -> str:
    if not external.ranking_condition:
        return ""
    others = f"; further conditions: {', '.join(external.conditions)}" if external.conditions else ""
    return f", under {external.ranking_condition}{others}"


def _specification_rows(spec: StudySpec) -> list[tuple[str, str]]:
    if spec.external is not None:
        return _external_rows(spec, spec.external)
    training, evaluation = spec.training, spec.evaluation
    sizes = evaluation.batch_sizes or (training.batch_size,)
    facts = [
        (
            "Data",
            f"{spec.data.name}, {_fraction_text(spec.data.fraction)}; held out for validation: {spec.data.validation}",
        ),
        ("Network", _network_text(spec)),
        ("Arms", "; ".join(_arm_text(arm) for arm in spec.arms)),
        (
            "Training",
            f"{training.epochs} epochs in mini-batches of {training.batch_size}, {training.optimizer} with learning "
            f"rate {training.learning_rate:g}; weights kept: {training.checkpoint.value.replace('_', ' ')}",
        ),
        ("Seeds", _number_list(spec.seeds)),
        (
            "Evaluation",
            f"population {', '.join(evaluation.population)}; mini-batches of {_number_list(sizes)}; correction "
            f"{evaluation.correction.value}",
        ),
        *([("Splits", _splits_text(evaluation))] if evaluation.splits else []),
        *([("Blends", _blends_text(evaluation.blends))] if evaluation.blends else []),
        *([("Conditions", "; ".join(map(_condition_text, evaluation.conditions)))] if evaluation.conditions else []),
        ("Ranked on", f"mean {spec.ranking.split} loss over seeds"),
    ]
    return facts + _search_facts(spec)


def _splits_text(evaluation: EvaluationSpec) -> str:
    of_train = "all examples" if evaluation.train_examples is TrainExamples.ALL else "as many examples as validation"
    return f"validation, test, and train ({of_train}), which neither ranks nor selects"


def _blends_text(blends: tuple[Blend, ...]) -> str:
    return f"weight of the population {', '.join(map(str, blends))}"


def _condition_text(condition: ConditionSpec) -> str:
    return f"{condition.name} ({condition.corruption}, severity {condition.severity}, seed {condition.seed})"


def _fraction_text(fraction: float) -> str:
    return "all of it" if fraction == 1 else f"{fraction * 100:g} % of it"


def _network_text(spec: StudySpec) -> str:
    widths = spec.model.widths
    return spec.model.name if widths is None else f"{spec.model.name}, {' and '.join(map(str, widths))} wide"


def _arm_text(arm: ArmSpec) -> str:
    name = arm.label if arm.label == arm.method.value else f"{arm.label} ({arm.method.value})"
    options = "".join(f"{option} {value}, " for option, value in arm.layer_options.items())
    return f"{name}, {options}{arm.semantics.value} semantics, checkpoint selected under {arm.selection_configuration}"


def _search_facts(spec: StudySpec) -> list[tuple[str, str]]:
    facts = [("Varied", ", ".join(spec.space))] if spec.space else []
    if spec.search is not None:
        search = spec.search
        text = f"sampler {search.sampler.value}, pruner {search.pruner.value}, {search.trials} points per arm"
        facts.append(("Search", text))
    return facts


def _number_list(numbers: tuple[int, ...]) -> str:
    text = ", ".join(map(str, numbers[:_MAX_LISTED_NUMBERS]))
    return text if len(numbers) <= _MAX_LISTED_NUMBERS else f"{text} … ({len(numbers)} in all)"
