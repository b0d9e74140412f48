"""The verb that shows per-layer configurations: layers."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import TypeAdapter
from rich import box
from rich.table import Table

from bln_search.cli.analysis import read_analysis
from bln_search.cli.exit_codes import Exit
from bln_search.cli.output import Format, errors, results
from bln_search.cli.sources import DatabaseOption, ServerOption, StudyArgument, TokenOption
from bln_search.cli.studies import FormatOption
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.per_layer import LayerResult
from bln_search.reports.layer_table import layer_table
from bln_search.reports.page import blocks
from bln_search.reports.page.per_layer import effects_table
from bln_search.reports.per_layer import layer_lines, left_out_lines, result_label
from bln_search.storage.queries import StudySummary


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command()(layers)


def layers(
    study: StudyArgument,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    output: FormatOption = Format.TABLE,
    top: Annotated[int, typer.Option("--top", min=1, max=100, help="Rows of the table, best first.")] = 10,
) -> None:
    """Show the per-layer configurations that were found, what of them is confirmed, and what each switch does where."""
    if output is Format.CSV:
        raise typer.BadParameter("this is tables and sentences: choose table or json", param_hint="--format")
    found, analysis = read_analysis(study, database, server, token)
    if not analysis.layers:
        errors.print(_none(found, analysis), soft_wrap=True, markup=False, highlight=False)
        raise typer.Exit(Exit.FAILED)
    if output is Format.JSON:
        typer.echo(TypeAdapter(tuple[LayerResult, ...]).dump_json(analysis.layers, indent=1).decode())
        return
    for result in analysis.layers:
        _print(result, top, f"{found.name}: {result_label(result)}")


def _none(study: StudySummary, analysis: Analysis) -> str:
    """Why there is nothing to show, and what to do."""
    ask = f"`bln-search search-layers {study.id}` does it"
    if study.spec.layers is None:
        return f"study {study.name} has no section `layers`: nothing was searched layer by layer; {ask}"
    if analysis.layers_reason is not None:
        return f"the networks of study {study.name} could not be searched layer by layer: {analysis.layers_reason}"
    return f"the networks of study {study.name} are not searched layer by layer yet; {ask}"


def _print(result: LayerResult, top: int, title: str) -> None:
    if result.rows or result.uniform:
        results.print(layer_table(result, top, title))
    else:
        results.print(title, markup=False, highlight=False)
    for line in (*layer_lines(result), *left_out_lines(result)):
        results.print(line, markup=False, highlight=False, soft_wrap=True)
    if result.effects:
        switches = effects_table(result)
        results.print(switches.caption, markup=False, highlight=False, soft_wrap=True)
        results.print(_plain(switches))


def _plain(made: blocks.Table) -> Table:
    """A table of the page for a terminal."""
    table = Table(header_style="bold", box=box.SIMPLE_HEAD)
    for column in made.columns:
        table.add_column(column.label, justify="right" if column.kind is blocks.Kind.NUMBER else "left")
    for row in made.rows:
        table.add_row(*row.cells)
    return table
