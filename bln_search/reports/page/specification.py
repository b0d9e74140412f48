"""What was asked: in words, and as the file to ask it again."""

from __future__ import annotations

import yaml

from bln_search.reports.page.blocks import Block, Code, Facts, Paragraph, Section
from bln_search.reports.page.context import Material
from bln_search.specs.arm import ArmSpec
from bln_search.specs.study import StudySpec


def asked(material: Material) -> Section:
    """The specification."""
    spec = material.study.spec
    blocks: list[Block] = [Facts(list(_words(spec)))]
    if material.notes:
        blocks.append(Paragraph(f"Notes: {material.notes}"))
    return Section("asked", "What was asked", [*blocks, Code(spec_yaml(spec), folded="The study file")])


def spec_yaml(spec: StudySpec) -> str:
    """The study as a file that stands for the same study."""
    plain = spec.model_dump(mode="json", exclude_none=True)
    return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100))


def _words(spec: StudySpec) -> list[tuple[str, str]]:
    training, evaluation = spec.training, spec.evaluation
    sizes = evaluation.batch_sizes or (training.batch_size,)
    words = [
        ("Data", f"{spec.data.name}, {_share(spec.data.fraction)}; held out for validation: {spec.data.validation}"),
        ("Network", _network(spec)),
        ("Arms", "; ".join(_arm(one) for one in spec.arms)),
        (
            "Training",
            f"{training.epochs} epochs in mini-batches of {training.batch_size}, {training.optimizer} with learning "
            f"rate {training.learning_rate:g}; weights kept: {training.checkpoint.value.replace('_', ' ')}",
        ),
        ("Seeds", _listed(spec.seeds)),
        (
            "Evaluation",
            f"population {', '.join(evaluation.population)}; mini-batches of {_listed(sizes)}; correction "
            f"{evaluation.correction.value}",
        ),
        ("Ranked on", f"mean {spec.ranking.split} loss over seeds"),
    ]
    return words + _searched(spec)


def _share(fraction: float) -> str:
    return "all of it" if fraction == 1 else f"{fraction * 100:g} % of it"


def _network(spec: StudySpec) -> str:
    widths = spec.model.widths
    return spec.model.name if widths is None else f"{spec.model.name}, {' and '.join(map(str, widths))} wide"


def _arm(arm: ArmSpec) -> str:
    named = arm.label if arm.label == arm.method.value else f"{arm.label} ({arm.method.value})"
    return f"{named}, {arm.semantics.value} reading, judged under {arm.judge}"


def _searched(spec: StudySpec) -> list[tuple[str, str]]:
    found = [("Varied", ", ".join(spec.space))] if spec.space else []
    if spec.search is not None:
        search = spec.search
        how = f"sampler {search.sampler.value}, pruner {search.pruner.value}, {search.trials} points an arm"
        found.append(("Search", how))
    return found


def _listed(numbers: tuple[int, ...]) -> str:
    most = 20
    shown = ", ".join(map(str, numbers[:most]))
    return shown if len(numbers) <= most else f"{shown} … ({len(numbers)} in all)"
