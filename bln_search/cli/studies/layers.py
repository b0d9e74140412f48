"""Command `layers`: show per-layer configurations."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import TypeAdapter
from rich import box
from rich.table import Table

from bln_search.cli.exit_codes import ExitCode
from bln_search.cli.options import DatabaseOption, FormatOption, ServerOption, StudyArgument, TokenOption
from bln_search.cli.output import Format, errors, results
from bln_search.cli.studies.analysis import load_analysis
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.per_layer import PerLayerResult
from bln_search.reports.page import blocks
from bln_search.reports.page.per_layer import effects_table
from bln_search.reports.sentences.per_layer import excluded_option_sentences, per_layer_sentences, result_label
from bln_search.reports.terminal.per_layer import layer_table
from bln_search.specs.records import StudyRecord


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(layers)


def layers(
    study: StudyArgument,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    output: FormatOption = Format.TABLE,
    top: Annotated[int, typer.Option("--top", min=1, max=100, help="Rows of the table, best first.")] = 10,
) -> None:
    """Show the best per-layer configurations, their confirmation, and the effect of each switch in each layer."""
    if output is Format.CSV:
        raise typer.BadParameter("the result cannot be written as CSV: choose table or json", param_hint="--format")
    study_record, analysis = load_analysis(study, database, server, token)
    if not analysis.layers:
        errors.print(_absence_reason(study_record, analysis), soft_wrap=True, markup=False, highlight=False)
        raise typer.Exit(ExitCode.FAILED)
    if output is Format.JSON:
        typer.echo(TypeAdapter(tuple[PerLayerResult, ...]).dump_json(analysis.layers, indent=1).decode())
        return
    for result in analysis.layers:
        _print(result, top, f"{study_record.name}: {result_label(result)}")


def _absence_reason(study: StudyRecord, analysis: Analysis) -> str:
    """Return why there is no result and what to do."""
    hint = f"`bln-search search-layers {study.id}` searches them"
    if study.spec.layers is None:
        return f"study {study.name} has no section `layers`: its per-layer configurations were not searched; {hint}"
    if analysis.layers_reason is not None:
        return f"the networks of study {study.name} could not be searched layer by layer: {analysis.layers_reason}"
    return f"the per-layer configurations of study {study.name} are not searched yet; {hint}"


def _print(result: PerLayerResult, top: int, title: str) -> None:
    if result.rows or result.uniform:
        results.print(layer_table(result, top, title))
    else:
        results.print(title, markup=False, highlight=False)
    for line in (*per_layer_sentences(result), *excluded_option_sentences(result)):
        results.print(line, markup=False, highlight=False, soft_wrap=True)
    if result.effects:
        effects = effects_table(result)
        results.print(effects.caption, markup=False, highlight=False, soft_wrap=True)
        results.print(_terminal_table(effects))


def _terminal_table(page_table: blocks.Table) -> Table:
    """Convert a table of the report for a terminal."""
    table = Table(header_style="bold", box=box.SIMPLE_HEAD)
    for column in page_table.columns:
        table.add_column(column.label, justify="right" if column.kind is blocks.Kind.NUMBER else "left")
    for row in page_table.rows:
        table.add_row(*row.cells)
    return table
