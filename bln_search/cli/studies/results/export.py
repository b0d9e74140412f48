"""Command `export`: write a trained network with its configuration."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bln_search.cli.exit_codes import report_nothing_written
from bln_search.cli.options import (
    DatabaseOption,
    DataOption,
    DocumentFormatOption,
    QuietOption,
    StudyArgument,
)
from bln_search.cli.output import DocumentFormat, print_line
from bln_search.cli.progress_lines import line_printer
from bln_search.cli.sources import LedgerSource, open_database
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.errors import ExportError
from bln_search.core.records import Evaluation, RowKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.settings import load_settings
from bln_search.specs.records import StudyRecord, TrialRecord
from bln_search.storage.ledger import Ledger
from bln_search.storage.results.evaluations import EvaluationRecord

if TYPE_CHECKING:
    from bln_search.api import TrainedRow
    from bln_search.api.export.description import ExportMetrics

BEST, RECOMMENDED = "best", "recommended"
_MAX_LISTED_ROWS = 20


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
    data: DataOption = None,
    database: DatabaseOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier export.")] = False,
    output_format: DocumentFormatOption = DocumentFormat.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Write a trained network with its configuration into a folder: weights, PyTorch and ONNX programs, model card."""
    settings = load_settings()
    with report_nothing_written(), open_database(database, settings) as ledger:
        study_record = ledger.studies.find(study)
        board = ledger.results.rank_study(study_record.id, study_record.spec)
        if config == RECOMMENDED:
            if (estimate, arm, batch_size, parameters) != (None, None, None, None):
                raise typer.BadParameter(
                    "the recommended row is determined: leave out the options that describe a row, or choose one with "
                    "--config best or --config CODE",
                    param_hint="--config",
                )
            row = _find_recommended_row(ledger, study_record, board)
        else:
            row = choose_row(board, config, estimate, arm, batch_size, parameters)
        trained = _load_trained_row(ledger, study_record, row, seed)
    from bln_search.api import export_network
    from bln_search.data import load_data

    data_set = load_data(trained.trial.data.name, data or settings.data_folder, settings.cache)
    line_printer(quiet=quiet)(f"exporting {trained.label}")
    with report_nothing_written():
        description, parity = export_network(trained, settings.checkpoint_store, data_set, output, overwrite=overwrite)
    if output_format is DocumentFormat.TABLE:
        layers_text = "folded into affine steps" if description.folded else "normalization layers not folded"
        print_line(
            f"{output}: {trained.label}, {layers_text}; PyTorch and ONNX programs differ by at most "
            f"{parity.largest_difference:.1e}"
        )
    else:
        typer.echo(json.dumps({"folder": str(output), "row": trained.label, "parity": parity.as_json()}))


def choose_row(
    board: Leaderboard,
    config: str,
    estimate: str | None = None,
    arm: str | None = None,
    batch_size: int | None = None,
    parameters: str | None = None,
) -> LeaderboardRow:
    """Return the row that the options describe.

    Args:
        board: The leaderboard.
        config: `best`, or the code of a configuration.
        estimate: Population estimate.
        arm: Arm.
        batch_size: Inference batch size.
        parameters: Parameters of the point, as the leaderboard prints them.

    Raises:
        BadParameter: `config` is not a configuration.
        ExportError: No row, or several rows, match; the message lists the rows.
    """
    try:
        configuration = None if config == BEST else InferenceConfiguration(config)
    except ValueError as error:
        raise typer.BadParameter(f"{error}; or write best or recommended", param_hint="--config") from None
    if not board.rows:
        raise ExportError("the study has no result yet")
    matching = [
        row
        for row in board.rows
        if configuration in (None, row.configuration)
        and estimate in (None, row.estimate)
        and arm in (None, row.arm)
        and batch_size in (None, row.batch_size)
        and parameters in (None, row.parameters, row.point)
    ]
    if not matching:
        arms = sorted({row.arm for row in board.rows})
        if arm is not None and arm not in arms:
            raise ExportError(f"the study has no arm {arm!r}; choose one of {', '.join(arms)}")
        alternatives = [row for row in board.rows if configuration in (None, row.configuration)] or list(board.rows)
        raise ExportError(f"the leaderboard has no such row; there are:\n{_format_row_list(alternatives)}")
    measured = [row for row in matching if row.state is EvaluationState.MEASURED]
    if not measured:
        raise ExportError(f"this row is {matching[0].state}, so it cannot be exported: {matching[0].reason}")
    if configuration is not None and len(measured) > 1:
        raise ExportError(
            f"{len(measured)} rows are {configuration}; choose with --estimate, --arm, --batch-size or --parameters:\n"
            f"{_format_row_list(measured)}"
        )
    return measured[0]


def _find_recommended_row(ledger: Ledger, study: StudyRecord, board: Leaderboard) -> LeaderboardRow:
    """Return the row that the study's analysis recommends. Raises ExportError without a recommendation."""
    analysis = LedgerSource(ledger).analysis(study, allow_incomplete=True)
    if analysis is None or analysis.recommendation is None:
        reason = "it has no result yet" if analysis is None else analysis.reason
        raise ExportError(f"nothing can be recommended: {reason}; use --config best, or a configuration")
    return next(row for row in board.rows if row.key == analysis.recommendation.key)


def _format_row_list(rows: Sequence[LeaderboardRow]) -> str:
    lines = [f"  {_row_label(row)}" for row in rows[:_MAX_LISTED_ROWS]]
    return "\n".join([*lines, *([f"  and {len(rows) - len(lines)} more"] if len(rows) > len(lines) else [])])


def _row_label(row: LeaderboardRow) -> str:
    estimate = f" --estimate {row.estimate}" if row.estimate else ""
    parameters = f" --parameters '{row.parameters}'" if row.point else ""
    return f"--config {row.configuration}{estimate} --arm {row.arm} --batch-size {row.batch_size}{parameters}"


def _load_trained_row(ledger: Ledger, study: StudyRecord, row: LeaderboardRow, seed: int | None) -> TrainedRow:
    """Return the row with the checkpoint of `seed`; by default the seed with the lowest validation loss."""
    from bln_search.api import TrainedRow

    study.reject_external_results()
    evaluations = [record for record in ledger.results.list_evaluations(study.id) if _is_result_of(record, row)]
    losses = {
        record.seed: record.evaluation.loss
        for record in evaluations
        if record.evaluation.key.split is Split.VALIDATION and record.evaluation.loss is not None
    }
    if seed is None:
        seed = min(losses, key=lambda candidate: (losses[candidate], candidate))
    if seed not in losses:
        seeds = ", ".join(str(available) for available in sorted(losses))
        raise ExportError(f"this row has no result of seed {seed}; it has seeds {seeds}")
    trial = next(record for record in ledger.trials.list_trials(study.id) if _is_trial_of(record, row, seed))
    assert trial.checkpoint is not None
    if trial.freed_at is not None:
        raise ExportError(
            f"the network of seed {seed} was removed on {trial.freed_at:%Y-%m-%d} to free disk space: "
            "train it again with `bln-search run` in another home, or export --config recommended"
        )
    return TrainedRow(
        study=study.name,
        study_digest=study.spec.digest,
        trial=trial.spec,
        checkpoint=trial.checkpoint,
        configuration=row.configuration,
        estimate=row.estimate,
        batch_size=row.batch_size,
        figures=_build_export_metrics(row, [record.evaluation for record in evaluations if record.seed == seed]),
    )


def _is_result_of(record: EvaluationRecord, row: LeaderboardRow) -> bool:
    return RowKey.of(record.arm, record.point, record.evaluation.key) == row.key


def _is_trial_of(trial: TrialRecord, row: LeaderboardRow, seed: int) -> bool:
    return (trial.spec.arm.label, trial.point, trial.spec.seed) == (row.arm, row.point, seed)


def _build_export_metrics(row: LeaderboardRow, evaluations: Sequence[Evaluation]) -> ExportMetrics:
    from bln_search.api.export.description import ExportMetrics, MetricValues

    return ExportMetrics(
        seeds=row.seeds,
        over_seeds={
            split.value: MetricValues(
                loss=figures.loss.mean,
                accuracy=figures.accuracy.mean if figures.accuracy else 0.0,
                loss_deviation=figures.loss.deviation,
                accuracy_deviation=figures.accuracy.deviation if figures.accuracy else None,
            )
            for split, figures in row.metrics.items()
        },
        this_seed={
            evaluation.key.split.value: MetricValues(loss=evaluation.loss, accuracy=evaluation.accuracy)
            for evaluation in evaluations
            if evaluation.loss is not None and evaluation.accuracy is not None
        },
    )
