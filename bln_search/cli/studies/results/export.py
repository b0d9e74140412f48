"""Command `export`: write a trained network with its configuration, from the database or by a worker of a service."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bln_search.cli.exit_codes import report_nothing_written_on_interrupt
from bln_search.cli.extras import find_missing_onnx_package_error
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
from bln_search.cli.output import DocumentFormat, make_progress_line_printer, print_line, print_note
from bln_search.cli.sources.ledger import LedgerSource
from bln_search.cli.sources.opening import (
    find_service_address,
    get_study_to_change,
    open_database_ignoring_service,
    open_service_client,
)
from bln_search.cli.studies.wording import NO_WORKER
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import ArchiveContents, ExportFormat
from bln_search.core.files.atomic_folder import atomic_folder, check_export_folder_replaceable
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.row_choice import BEST, RECOMMENDED, RowQuery, RowWording, get_matching_row, get_recommended_row
from bln_search.settings import Settings, load_settings
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import Ledger

if TYPE_CHECKING:
    from bln_search.client import Client


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


Progress = Callable[[str], None]
_ANALYSIS_SECONDS = 60.0
_EXPORT_SECONDS = 3600.0
_CONFIGURATION_FILE, _PARITY_FILE = "configuration.json", "parity.json"


@dataclass(frozen=True)
class RowOptions:
    """The options that describe a row. configuration: `recommended`, `best`, or a code."""

    configuration: str
    estimate: str | None
    arm: str | None
    batch_size: int | None
    parameters: str | None
    seed: int | None

    def check_options_consistent(self) -> None:
        """Raise BadParameter for options that contradict each other, or an unknown configuration."""
        described = (self.estimate, self.arm, self.batch_size, self.parameters)
        if self.configuration == RECOMMENDED and described != (None, None, None, None):
            raise typer.BadParameter(
                "the recommended row is determined: leave out the options that describe a row, or choose one with "
                "--config best or --config CODE",
                param_hint="--config",
            )
        if self.configuration != RECOMMENDED:
            self.parse_row_choice()

    def parse_row_choice(self) -> RowQuery:
        """Return the choice of a row that is not the recommended one. Raises BadParameter."""
        try:
            code = None if self.configuration == BEST else InferenceConfiguration(self.configuration)
        except ValueError as error:
            raise typer.BadParameter(f"{error}; or write best or recommended", param_hint="--config") from None
        return RowQuery(code, self.estimate, self.arm, self.batch_size, self.parameters)


@dataclass(frozen=True)
class ExportedRow:
    """What was exported. parity: the content of parity.json."""

    label: str
    is_folded: bool
    parity: dict[str, Any]


def export_from_database(
    ledger: Ledger,
    settings: Settings,
    study: str,
    options: RowOptions,
    forms: ArchiveContents,
    data: Path | None,
    output: Path,
    progress: Progress,
    overwrite: bool,  # noqa: FBT001 - an option of the command
    *,
    accept_code_change: bool,
) -> ExportedRow:
    """Export a row with the packages of this machine."""
    missing = find_missing_onnx_package_error() if ExportFormat.ONNX in forms.export_formats else None
    if missing is not None:
        raise missing
    study_record = get_study_to_change(ledger, study)
    study_record.check_has_no_external_results()
    board = ledger.results.rank_rows_of_study(study_record.id, study_record.spec)
    row = choose_exported_row(ledger, study_record, board, options)
    trial = ledger.exports.get_trial_to_export(study_record.id, row.key, options.seed)
    from bln_search.api.export.study_export import export_trained_row
    from bln_search.data import load_data_set
    from bln_search.worker.exports.trained_row import load_trained_row

    trained = load_trained_row(ledger, study_record, board, row, trial, accept_code_change=accept_code_change)
    spec = trained.trial.data
    data_set = load_data_set(spec.name, data or settings.data_folder, settings.cache, spec.own_options)
    progress(f"exporting {trained.row_label}")
    description, parity = export_trained_row(
        trained, settings.checkpoint_store, data_set, output, overwrite=overwrite, forms=forms.export_formats
    )
    return ExportedRow(trained.row_label, description.folded, parity.to_json_object())


def choose_exported_row(ledger: Ledger, study: StudyRecord, board: Leaderboard, options: RowOptions) -> LeaderboardRow:
    """Return the row that the options describe. Raises ExportError."""
    if options.configuration == RECOMMENDED:
        analysis = LedgerSource(ledger).find_or_compute_analysis(study, allow_incomplete=True)
        row = get_recommended_row(board, analysis, _OPTION_WORDING)
        check = None if analysis is None else analysis.no_better_than_class_prior
        if check is not None and row.arm in check.arms:
            from bln_search.reports.sentences.recommendation import class_prior_baseline_warning

            print_note(f"Warning: {class_prior_baseline_warning(check)}")
        return row
    return get_matching_row(board, options.parse_row_choice(), _OPTION_WORDING)


def export_from_service(
    client: Client,
    study: str,
    options: RowOptions,
    forms: ArchiveContents,
    output: Path,
    progress: Progress,
    overwrite: bool,  # noqa: FBT001 - an option of the command
) -> ExportedRow:
    """Let a worker of the service export a row, and download it."""
    check = partial(check_export_folder_replaceable, output, overwrite=overwrite, is_export=_is_export_folder)
    check()
    study_id = get_study_to_change(client, study).id
    if options.configuration == RECOMMENDED:
        client.analysis(study_id, wait=_ANALYSIS_SECONDS)  # a worker computes it when the study is complete
    requested = client.exports.request(study_id, format=forms, **asdict(options))
    progress(f"export {requested['id']}: {requested['name']}")
    ready = client.exports.wait(
        study_id,
        requested["id"],
        timeout=_EXPORT_SECONDS,
        worker_timeout=_EXPORT_SECONDS,  # a worker may start meanwhile
        on_change=lambda export: progress(_format_export_progress(export)),
    )
    with atomic_folder(output, check) as staging:
        client.exports.download_into_folder(ready, staging)
        description = json.loads((staging / _CONFIGURATION_FILE).read_bytes())
        parity = json.loads((staging / _PARITY_FILE).read_bytes())
    return ExportedRow(ready["name"], description["folded"], parity)


def _is_export_folder(folder: Path) -> bool:
    """Whether the folder has the description of an export; reading it completely needs torch."""
    try:
        return "format" in json.loads((folder / _CONFIGURATION_FILE).read_bytes())
    except (OSError, ValueError, TypeError):
        return False


def _format_export_progress(export: dict[str, Any]) -> str:
    ahead = export["waiting_before"]
    waiting = f", {ahead} before it" if ahead else ""
    step = f", {export['step']}" if export["step"] else ""
    missing = "" if export["has_worker"] or export["state"] == "ready" else f"; {NO_WORKER}"
    return f"export {export['id']}: {export['state']}{step}{waiting}{missing}"


def _format_row_options(row: LeaderboardRow) -> str:
    estimate = f" --estimate {row.estimate}" if row.estimate else ""
    parameters = f" --parameters '{row.parameters}'" if row.point else ""
    return f"--config {row.configuration}{estimate} --arm {row.arm} --batch-size {row.batch_size}{parameters}"


_OPTION_WORDING = RowWording(
    names="--estimate, --arm, --batch-size or --parameters",
    describe=_format_row_options,
    recommendation="--config best, or a configuration",
)
