"""A finished check as one self-contained HTML page."""

from __future__ import annotations

from bln_search.ranking.network_check import CheckVerdict, NetworkCheck, Variant
from bln_search.reports.charts.batch_sizes import criterion_values_by_batch_size_chart
from bln_search.reports.charts.chart import Chart
from bln_search.reports.check.sentences import (
    VARIANT_SENTENCES,
    calibration_sentence,
    condition_sentence,
    dependence_sentence,
    effect_note,
    mode_sentences,
    verdict_sentence,
)
from bln_search.reports.check.table import make_variant_table
from bln_search.reports.formatting import format_loss
from bln_search.reports.page.blocks import (
    Block,
    Code,
    DefinitionList,
    Paragraph,
    Section,
    Table,
    figures_of_existing_charts,
)
from bln_search.reports.page.html import render_page_html
from bln_search.reports.tables.columns import join_column_legends

_STEADY = (Variant.DEPLOYED, Variant.RE_ESTIMATED, Variant.RE_ESTIMATED_ON_VALIDATION)
"""Variants with the same outputs at every mini-batch size, which are drawn as horizontal lines."""


def render_check_html(check: NetworkCheck) -> str:
    """The page of a check: verdict, figures, findings, and how it was measured."""
    sections = [_verdict_section(check), _finding_section(check), _variant_section(check)]
    if check.conditions or check.calibration is not None:
        sections.append(_shift_section(check))
    sections.append(_measurement_section(check))
    return render_page_html(
        f"Check of {check.network}",
        f"Check of {check.network}",
        f"{check.parameters:,} parameters, {_layers_text(check)}",
        sections,
    )


def _verdict_section(check: NetworkCheck) -> Section:
    blocks: list[Block] = [
        Paragraph(verdict_sentence(check), warning=check.verdict is CheckVerdict.CHANGE),
        *map(Paragraph, mode_sentences(check)),
        DefinitionList(_main_figures(check)),
    ]
    return Section("verdict", "Verdict", [*blocks, *figures_of_existing_charts(_loss_chart(check))])


def _main_figures(check: NetworkCheck) -> list[tuple[str, str]]:
    """Loss and accuracy of the deployed network, with statistics estimated again, and with those of the mini-batch."""
    shown = (Variant.DEPLOYED, Variant.RE_ESTIMATED, Variant.MINI_BATCH)
    figures = []
    for variant in dict.fromkeys((*shown, check.chosen)):
        row = check.find(variant)
        if row is not None:
            loss = "not finite" if row.loss is None else format_loss(row.loss)
            accuracy = "" if row.accuracy is None else f", accuracy {100 * row.accuracy:.2f} %"
            figures.append((f"The network {VARIANT_SENTENCES[variant]}", f"loss {loss}{accuracy}"))
    return figures


def _loss_chart(check: NetworkCheck) -> Chart | None:
    """Loss against mini-batch size; None for a single size, or without any finite loss."""
    sizes = sorted({row.batch_size for row in check.variants})
    if len(sizes) < 2:
        return None
    lines: dict[str, list[float | None]] = {}
    depends = any(found.variant is Variant.DEPLOYED for found in check.dependence)
    for variant in dict.fromkeys((*_STEADY, check.chosen)):
        row = check.find(variant)
        if variant is Variant.MINI_BATCH or row is None or row.loss is None:
            continue
        is_point = depends and variant is Variant.DEPLOYED  # it was measured at one size
        lines[str(variant)] = [row.loss if size == row.batch_size or not is_point else None for size in sizes]
    of_mini_batch = [check.find(Variant.MINI_BATCH, size) for size in sizes]
    lines[str(Variant.MINI_BATCH)] = [None if row is None else row.loss for row in of_mini_batch]
    columns = ([line[index] for line in lines.values()] for index in range(len(sizes)))
    lowest = [min((value for value in column if value is not None), default=0.0) for column in columns]
    return criterion_values_by_batch_size_chart(
        sizes,
        lines,
        name=check.loss_name,
        unit=check.loss_unit,
        lowest=lowest,
        margins=[check.margin] * len(sizes),
    )


def _finding_section(check: NetworkCheck) -> Section:
    return Section("findings", "Findings", make_finding_blocks(check) or [Paragraph("None.")])


def make_finding_blocks(check: NetworkCheck) -> list[Block]:
    """Causes with evidence, remedy and code, then how outputs depend on batch-mates."""
    blocks: list[Block] = []
    for number, finding in enumerate(check.findings, start=1):
        title = f"{number}. {finding.cause[0].upper()}{finding.cause[1:]}{effect_note(finding)}"
        blocks.append(Paragraph(title, warning=finding.has_effect))
        blocks += [Paragraph(finding.evidence), Paragraph(f"What to do: {finding.remedy}")]
        blocks += [Code(finding.code)] if finding.code else []
    return blocks + [Paragraph(dependence_sentence(found)) for found in check.dependence]


def _variant_section(check: NetworkCheck) -> Section:
    table = make_variant_table(check)
    legend = Paragraph(join_column_legends(table.columns))
    return Section("measured", "What was measured", [Table(table), legend])


def _shift_section(check: NetworkCheck) -> Section:
    blocks: list[Block] = [] if check.calibration is None else [Paragraph(calibration_sentence(check.calibration))]
    for condition in check.conditions:
        table = make_variant_table(check.model_copy(update={"variants": condition.variants}), condition.name)
        blocks += [Paragraph(condition_sentence(condition)), Table(table)]
    return Section("shift", "Under other conditions", blocks)


def _measurement_section(check: NetworkCheck) -> Section:
    training = (
        "none, or mini-batches whose examples cannot be counted"
        if not check.training_examples
        else f"{check.training_examples:,} examples in mini-batches of {check.training_batch_size}"
    )
    pairs = [
        ("Validation data", f"{check.examples:,} examples, SHA-256 {check.data_digest[:16]}…"),
        ("Training data", training),
        ("Practically equal", f"up to a difference of {check.margin:.2g} {check.loss_unit}".rstrip()),
        ("Versions", ", ".join(f"{name} {version}" for name, version in check.versions.items())),
        ("Device", check.device),
        ("Duration", f"{check.seconds:.1f} s"),
        (
            "Method",
            "each change was tried on the same examples; differences by the paired t test, intervals and p values "
            "corrected for all changes (Bonferroni)",
        ),
    ]
    return Section(
        "method", "How it was measured", [DefinitionList(pairs), Code(check.model_dump_json(indent=1), "JSON")]
    )


def _layers_text(check: NetworkCheck) -> str:
    return ", ".join(f"{count} × {kind}" for kind, count in check.layers.items())
