"""Command `search-layers`: search per-layer configurations of a trained study."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import ValidationError

from bln_search.cli.environment import make_execution_environment
from bln_search.cli.options import (
    AcceptCodeChangeOption,
    DatabaseOption,
    DataOption,
    DeviceOption,
    FormatOption,
    QuietOption,
    SelectablePopulationEstimate,
    StudyArgument,
    WorkersOption,
)
from bln_search.cli.output import RecordsFormat, make_progress_line_printer, print_note
from bln_search.cli.sources.opening import open_database_ignoring_service
from bln_search.cli.studies.results.layers import print_layer_search_results
from bln_search.core.enums import LayerScope, LayerSearchAlgorithm
from bln_search.core.errors import DataError, ModelError
from bln_search.core.names import format_count_with_noun
from bln_search.settings import load_settings
from bln_search.specs.sections.layer_search import LayerSearchSpec
from bln_search.specs.study import StudySpec

_ALGORITHMS = ", ".join(LayerSearchAlgorithm)


def search_layers(
    study: StudyArgument,
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
        SelectablePopulationEstimate | None, typer.Option("--estimate", help="Population estimate.")
    ] = None,
    evaluations: Annotated[
        int | None,
        typer.Option("--evaluations", min=16, max=1_000_000, metavar="N", help="Budget of searches other than exact."),
    ] = None,
    folds: Annotated[
        int | None, typer.Option("--folds", min=2, max=20, metavar="N", help="Parts of the validation split.")
    ] = None,
    workers: WorkersOption = None,
    database: DatabaseOption = None,
    data: DataOption = None,
    device: DeviceOption = None,
    output_format: FormatOption = RecordsFormat.TABLE,
    quiet: QuietOption = False,
    accept_code_change: AcceptCodeChangeOption = False,
) -> None:
    """Search the per-layer configurations of a study's trained networks, without training again.

    After an interruption the same command resumes and keeps finished networks. `bln-search layers` shows the result.
    """
    from bln_search.worker.analysis import LayerSearchStatus, compute_and_store_analysis
    from bln_search.worker.layer_search import search_layers_of_study as search_networks

    settings = load_settings()
    with open_database_ignoring_service(database, settings) as ledger:
        study_record = ledger.studies.get_by_name_or_id(study)
        options = {
            "search": search,
            "estimate": estimate,
            "evaluations": evaluations,
            "folds": folds,
            **({} if group is None else {"scope": LayerScope.GROUPS, "groups": _parse_layer_groups(group)}),
        }
        layers = _merge_layers_spec_with_options(
            study_record.spec, {name: value for name, value in options.items() if value}
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


def _merge_layers_spec_with_options(study: StudySpec, options: dict[str, object]) -> LayerSearchSpec:
    """Return the study's section `layers`, overridden by the options."""
    layers = {**(study.layers or LayerSearchSpec()).model_dump(), **options}
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
