"""Command `export`: write a trained network with its configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bln_search.cli.exit_codes import report_nothing_written_on_interrupt
from bln_search.cli.options import (
    AcceptCodeChangeOption,
    DatabaseOption,
    DataOption,
    DocumentFormatOption,
    QuietOption,
    ServerOption,
    StudyArgument,
    TokenOption,
)
from bln_search.cli.output import DocumentFormat, make_progress_line_printer, print_line
from bln_search.cli.sources.opening import find_service_address, open_database_ignoring_service, open_service_client
from bln_search.cli.studies.results.exported_rows import (
    ExportedRow,
    RowOptions,
    export_from_database,
    export_from_service,
)
from bln_search.core.enums import ArchiveContents
from bln_search.ranking.row_choice import RECOMMENDED
from bln_search.settings import load_settings


def export(
    study: StudyArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder to write: new, empty, or an earlier export with --overwrite.",
            show_default=False,
        ),
    ],
    config: Annotated[
        str, typer.Option("--config", metavar="CODE", help="`recommended`, `best`, or four letters such as TTFF.")
    ] = RECOMMENDED,
    estimate: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL", help="Population estimate of the row: frozen, epoch, moving, or a blend: frozen@0.1."
        ),
    ] = None,
    arm: Annotated[str | None, typer.Option("--arm", metavar="ARM", help="Arm of the row.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Inference mini-batch size of the row.")
    ] = None,
    parameters: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Parameters of the row, as the table prints them.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Seed; by default the one with the lowest validation loss.")
    ] = None,
    forms: Annotated[
        ArchiveContents, typer.Option("--forms", help="Forms of the network to write.")
    ] = ArchiveContents.ALL,
    data: DataOption = None,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier export.")] = False,
    output_format: DocumentFormatOption = DocumentFormat.TABLE,
    quiet: QuietOption = False,
    accept_code_change: AcceptCodeChangeOption = False,
) -> None:
    """Write a trained network with its configuration into a folder: weights, PyTorch and ONNX programs, model card.

    With a service one of its workers exports the network, and this command waits and downloads it; torch is not needed.
    """
    settings = load_settings()
    row = RowOptions(config, estimate, arm, batch_size, parameters, seed)
    row.check_options_consistent()
    service = find_service_address(database, server, settings)
    progress = make_progress_line_printer(quiet=quiet)
    with report_nothing_written_on_interrupt():
        if service is None:
            with open_database_ignoring_service(database, settings) as ledger:
                exported = export_from_database(
                    ledger,
                    settings,
                    study,
                    row,
                    forms,
                    data,
                    output,
                    progress,
                    overwrite,
                    accept_code_change=accept_code_change,
                )
        elif data is not None:
            raise typer.BadParameter("a worker of the service reads its own data", param_hint="--data")
        elif accept_code_change:
            raise typer.BadParameter(
                "a worker of the service uses its own code: accept the change on its machine",
                param_hint="--accept-code-change",
            )
        else:
            with open_service_client(service, token, settings) as client:
                exported = export_from_service(client, study, row, forms, output, progress, overwrite)
    _print_exported_row(output, exported, output_format)


def _print_exported_row(output: Path, exported: ExportedRow, output_format: DocumentFormat) -> None:
    if output_format is not DocumentFormat.TABLE:
        typer.echo(json.dumps({"folder": str(output), "row": exported.label, "parity": exported.parity}))
        return
    layers_text = "folded into affine steps" if exported.is_folded else "normalization layers not folded"
    print_line(
        f"{output}: {exported.label}, {layers_text}; PyTorch and ONNX programs differ by at most "
        f"{exported.parity['largest_difference']:.1e}"
    )
