"""Commands for per-layer configurations: layers, search-layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from bln_search.cli import options
from bln_search.cli.environment import make_execution_environment
from bln_search.cli.exit_codes import ExitCode
from bln_search.cli.output import (
    RecordsFormat,
    make_progress_line_printer,
    print_error,
    print_line,
    print_note,
    results,
)
from bln_search.cli.records import print_records
from bln_search.cli.sources.opening import find_service_address, get_study_to_change, open_database_ignoring_service
from bln_search.cli.studies.results.analysis import load_study_and_analysis
from bln_search.core.enums import LayerScope, LayerSearchAlgorithm
from bln_search.core.errors import DataError, ModelError
from bln_search.core.names import format_count_with_noun
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.per_layer import PerLayerResult
from bln_search.reports.per_layer_tables import best_per_layer_configurations_table, layer_switch_effects_table
from bln_search.reports.sentences.per_layer import arm_and_point_label, excluded_option_sentences, per_layer_sentences
from bln_search.settings import load_settings
from bln_search.specs.records import StudyRecord
from bln_search.specs.sections.layer_search import LayerSearchSpec
from bln_search.specs.study import StudySpec

_TABLE_ROWS = 10
_RESULTS = TypeAdapter(tuple[PerLayerResult, ...])
_ACCURACY_COLUMN = "validation_accuracy"
_COLUMNS = (
    *("arm", "parameters", "population", "batch_size", "rank", "uniform"),
    *("configuration", "validation_loss", _ACCURACY_COLUMN, "networks"),
)


def layers(
    study: options.StudyArgument,
    database: options.DatabaseOption = None,
    server: options.ServerOption = None,
    token: options.TokenOption = None,
    output_format: options.FormatOption = RecordsFormat.TABLE,
    limit: options.LimitOption = None,
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


_ALGORITHMS = ", ".join(LayerSearchAlgorithm)


def search_layers(
    study: options.StudyArgument,
    search: Annotated[
        LayerSearchAlgorithm | None,
        typer.Option("--search", metavar="ALGORITHM", help=f"{_ALGORITHMS}; by default the study's, or exact."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group",
            metavar="NAME=PATTERN",
            help="Layers that share a configuration, as in early=features.*; repeatable.",
        ),
    ] = None,
    estimate: Annotated[
        options.SelectablePopulationEstimate | None, typer.Option("--estimate", help="Population estimate.")
    ] = None,
    evaluations: Annotated[
        int | None,
        typer.Option("--evaluations", min=16, max=1_000_000, metavar="N", help="Budget of searches other than exact."),
    ] = None,
    folds: Annotated[
        int | None, typer.Option("--folds", min=2, max=20, metavar="N", help="Parts of the validation split.")
    ] = None,
    workers: options.WorkersOption = None,
    database: options.DatabaseOption = None,
    data: options.DataOption = None,
    device: options.DeviceOption = None,
    output_format: options.FormatOption = RecordsFormat.TABLE,
    quiet: options.QuietOption = False,
    accept_code_change: options.AcceptCodeChangeOption = False,
) -> None:
    """Search the per-layer configurations of a study's trained networks, without training again.

    After an interruption the same command resumes and keeps finished networks. `bln-search layers` shows the result.
    """
    from bln_search.worker.analysis import LayerSearchStatus, compute_and_store_analysis
    from bln_search.worker.layer_search import search_layers_of_study as search_networks

    settings = load_settings()
    with open_database_ignoring_service(database, settings) as ledger:
        study_record = get_study_to_change(ledger, study)
        overrides = {
            "search": search,
            "estimate": estimate,
            "evaluations": evaluations,
            "folds": folds,
            **({} if group is None else {"scope": LayerScope.GROUPS, "groups": _parse_layer_groups(group)}),
        }
        layers = _merge_layers_spec_with_options(
            study_record.spec, {name: value for name, value in overrides.items() if value}
        )
        environment = make_execution_environment(settings, data, device)
        try:
            network_count = search_networks(
                ledger,
                study_record.id,
                environment,
                layers,
                make_progress_line_printer(quiet=quiet),
                max_workers=workers,
                accept_code_change=accept_code_change,
            )
        except (DataError, ModelError) as error:  # some networks could not be searched
            compute_and_store_analysis(ledger, study_record.id, None, layer_search=LayerSearchStatus(str(error)))
            raise
        analysis = compute_and_store_analysis(ledger, study_record.id, None, layer_search=LayerSearchStatus())
    if output_format is not RecordsFormat.TABLE:
        print_layer_search_results(study_record.name, analysis.layers, output_format)
    elif not quiet:
        print_note(
            f"{format_count_with_noun(network_count, 'network', 'networks')} searched; "
            f"`bln-search layers {study_record.id}` shows the result",
        )


def _merge_layers_spec_with_options(study: StudySpec, overrides: dict[str, object]) -> LayerSearchSpec:
    """Return the study's section `layers`, overridden by the options."""
    layers = {**(study.layers or LayerSearchSpec()).model_dump(), **overrides}
    try:
        StudySpec.model_validate({**study.model_dump(), "layers": layers})
        return LayerSearchSpec.model_validate(layers)
    except ValidationError as error:
        problem = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise typer.BadParameter(problem, param_hint="search-layers") from None


def _parse_layer_groups(texts: list[str]) -> dict[str, list[str]]:
    """Parse groups such as `early=features.*` into patterns by name."""
    groups: dict[str, list[str]] = {}
    for text in texts:
        name, separator, pattern = text.partition("=")
        if not separator or not name or not pattern:
            raise typer.BadParameter(f"{text!r} is not a group such as early=features.*", param_hint="--group")
        groups.setdefault(name, []).append(pattern)
    return groups
