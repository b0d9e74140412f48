"""Command `layers`: show per-layer configurations."""

from __future__ import annotations

from collections.abc import Sequence

import typer
from pydantic import TypeAdapter

from bln_search.cli.exit_codes import ExitCode
from bln_search.cli.options import (
    DatabaseOption,
    FormatOption,
    LimitOption,
    ServerOption,
    StudyArgument,
    TokenOption,
)
from bln_search.cli.output import RecordsFormat, print_error, print_line, results
from bln_search.cli.records import print_records
from bln_search.cli.sources.opening import find_service_address
from bln_search.cli.studies.results.analysis import load_study_and_analysis
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.per_layer import PerLayerResult
from bln_search.reports.per_layer_tables import best_per_layer_configurations_table, layer_switch_effects_table
from bln_search.reports.sentences.per_layer import arm_and_point_label, excluded_option_sentences, per_layer_sentences
from bln_search.settings import load_settings
from bln_search.specs.records import StudyRecord

_TABLE_ROWS = 10
_RESULTS = TypeAdapter(tuple[PerLayerResult, ...])
_ACCURACY_COLUMN = "validation_accuracy"
_COLUMNS = (
    *("arm", "parameters", "population", "batch_size", "rank", "uniform"),
    *("configuration", "validation_loss", _ACCURACY_COLUMN, "networks"),
)


def layers(
    study: StudyArgument,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    output_format: FormatOption = RecordsFormat.TABLE,
    limit: LimitOption = None,
) -> None:
    """Show the best per-layer configurations, their confirmation, and the effect of each switch in each layer."""
    study_record, analysis = load_study_and_analysis(study, database, server, token)
    if not analysis.layers:
        is_remote = find_service_address(database, server, load_settings()) is not None
        print_error(_why_layer_results_are_absent(study_record, analysis, is_remote=is_remote))
        raise typer.Exit(ExitCode.FAILED)
    print_layer_search_results(study_record.name, analysis.layers, output_format, limit)


def print_layer_search_results(
    study_name: str, per_layer_results: Sequence[PerLayerResult], output_format: RecordsFormat, limit: int | None = None
) -> None:
    """Print results of per-layer searches.

    Args:
        study_name: Name of the study.
        per_layer_results: The results; JSON has all their fields, other formats have the rows.
        output_format: The format.
        limit: Largest number of rows of a result; by default ten in the table and all in other formats.
    """
    if output_format is RecordsFormat.TABLE:
        for result in per_layer_results:
            _print_layer_result(result, limit or _TABLE_ROWS, f"{study_name}: {arm_and_point_label(result)}")
        return
    limited = tuple(result.model_copy(update={"rows": result.rows[:limit]}) for result in per_layer_results)
    if output_format is RecordsFormat.JSON:
        typer.echo(_RESULTS.dump_json(limited, indent=1).decode())
    else:
        records = [record for result in limited for record in _list_row_records(result)]
        has_accuracy = all(result.has_accuracy for result in limited)
        columns = [column for column in _COLUMNS if has_accuracy or column != _ACCURACY_COLUMN]
        print_records(records, columns, output_format)


def _list_row_records(result: PerLayerResult) -> list[dict[str, object]]:
    """Return a record for each per-layer row, with its rank, then one for each uniform row."""
    shared = {
        "arm": result.arm,
        "parameters": result.point or None,
        "population": result.estimate,
        "batch_size": result.batch_size,
    }
    rows = [(rank, row) for rank, row in enumerate(result.rows, start=1)] + [(None, row) for row in result.uniform]
    return [
        {
            **shared,
            "rank": rank,
            "uniform": rank is None,
            "configuration": row.configuration,
            "validation_loss": row.loss,
            **({} if row.accuracy is None else {_ACCURACY_COLUMN: row.accuracy}),
            "networks": row.networks,
        }
        for rank, row in rows
    ]


def _why_layer_results_are_absent(study: StudyRecord, analysis: Analysis, *, is_remote: bool) -> str:
    """Return why there is no result and what to do."""
    where = " on the machine of the database" if is_remote else ""
    hint = f"`bln-search search-layers {study.id}`{where} searches them"
    if study.spec.layers is None:
        return f"study {study.name} has no section `layers`: its per-layer configurations were not searched; {hint}"
    if analysis.layers_reason is not None:
        return f"the networks of study {study.name} could not be searched layer by layer: {analysis.layers_reason}"
    return f"the per-layer configurations of study {study.name} are not searched yet; {hint}"


def _print_layer_result(result: PerLayerResult, limit: int, title: str) -> None:
    if result.rows or result.uniform:
        results.print(best_per_layer_configurations_table(result, limit, title, describe_loss=True))
    else:
        print_line(title)
    for line in (*per_layer_sentences(result), *excluded_option_sentences(result)):
        print_line(line)
    if result.effects:
        results.print(layer_switch_effects_table(result))
