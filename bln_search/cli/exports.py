"""The verb that takes a trained network along."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bln_search.cli.exit_codes import keeping_nothing
from bln_search.cli.output import Format, errors, results
from bln_search.cli.sources import DatabaseOption, LedgerSource, StudyArgument
from bln_search.cli.studies import DataOption, FormatOption
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.errors import ExportError
from bln_search.core.records import Evaluation
from bln_search.core.states import EvaluationState
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.settings import load_settings
from bln_search.storage.board import study_leaderboard
from bln_search.storage.evaluations import RecordedEvaluation, evaluations
from bln_search.storage.ledger import Ledger, open_ledger
from bln_search.storage.queries import StudySummary
from bln_search.storage.trained import TrialResult, trial_results

if TYPE_CHECKING:
    from bln_search.api import TrainedRow
    from bln_search.api.description import Figures

BEST, RECOMMENDED = "best", "recommended"
_MOST_LISTED = 20


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command()(export)


def export(
    study: StudyArgument,
    to: Annotated[Path, typer.Option("--to", help="Folder to write; new, empty, or with --overwrite an export.")],
    config: Annotated[
        str, typer.Option("--config", help="`best`, `recommended`, or four letters such as TTFF.")
    ] = BEST,
    estimate: Annotated[PopulationEstimate | None, typer.Option(help="Population estimate of the row.")] = None,
    arm: Annotated[str | None, typer.Option(help="Arm of the row.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Inference mini-batch size of the row.")] = None,
    parameters: Annotated[str | None, typer.Option(help="Parameters of the row, as the table writes them.")] = None,
    seed: Annotated[int | None, typer.Option(help="By default the best of the row on validation.")] = None,
    data: DataOption = None,
    database: DatabaseOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier export.")] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Write a trained network with its configuration into a folder: weights, PyTorch and ONNX programs, model card."""
    settings = load_settings()
    with keeping_nothing(), closing(open_ledger(database or settings.database_url)) as ledger:
        found = ledger.find_study(study)
        board = study_leaderboard(ledger.engine, found.id, found.spec)
        if config == RECOMMENDED:
            if (estimate, arm, batch_size, parameters) != (None, None, None, None):
                raise typer.BadParameter("which row is recommended is known: name no part of it", param_hint="--config")
            row = _recommended(ledger, found, board)
        else:
            row = choose_row(board, config, estimate, arm, batch_size, parameters)
        trained = _trained(ledger, found, row, seed)
    from bln_search.api import export_network
    from bln_search.data import load_data

    loaded = load_data(trained.trial.data.name, data or settings.data_folder, settings.cache)
    errors.print(f"exporting {trained.label}", markup=False, highlight=False, soft_wrap=True)
    with keeping_nothing():
        description, parity = export_network(trained, settings.checkpoint_store, loaded, to, overwrite=overwrite)
    if output is Format.TABLE:
        folded = "folded into affine steps" if description.folded else "normalization layers as they are"
        results.print(
            f"{to}: {trained.label}, {folded}; PyTorch and ONNX programs differ by {parity.largest_difference:.1e} "
            "at most",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    else:
        typer.echo(json.dumps({"folder": str(to), "row": trained.label, "parity": parity.as_json()}))


def choose_row(
    board: Leaderboard,
    config: str,
    estimate: PopulationEstimate | None = None,
    arm: str | None = None,
    batch_size: int | None = None,
    parameters: str | None = None,
) -> LeaderboardRow:
    """The one row asked for. Raises ExportError, listing what there is, where there are none or several.

    Raises BadParameter where `config` is no configuration.
    """
    try:
        word = None if config == BEST else InferenceConfiguration(config)
    except ValueError as error:
        raise typer.BadParameter(f"{error}; or write best or recommended", param_hint="--config") from None
    if not board.rows:
        raise ExportError("the study has no result yet")
    found = [
        row
        for row in board.rows
        if word in (None, row.configuration)
        and estimate in (None, row.estimate)
        and arm in (None, row.arm)
        and batch_size in (None, row.batch_size)
        and parameters in (None, row.parameters, row.point)
    ]
    if not found:
        arms = sorted({row.arm for row in board.rows})
        if arm is not None and arm not in arms:
            raise ExportError(f"the study has no arm {arm!r}; choose one of {', '.join(arms)}")
        wider = [row for row in board.rows if word in (None, row.configuration)] or list(board.rows)
        raise ExportError(f"the leaderboard has no such row; there are:\n{_listed(wider)}")
    measured = [row for row in found if row.state is EvaluationState.MEASURED]
    if not measured:
        raise ExportError(f"this row is {found[0].state}, there is nothing to export: {found[0].reason}")
    if word is not None and len(measured) > 1:
        raise ExportError(
            f"{len(measured)} rows are {word}; say which with --estimate, --arm, --batch-size or --parameters:\n"
            f"{_listed(measured)}"
        )
    return measured[0]


def _recommended(ledger: Ledger, study: StudySummary, board: Leaderboard) -> LeaderboardRow:
    """The row that the study's analysis recommends."""
    analysis = LedgerSource(ledger).analysis(study, anyway=True)
    if analysis is None or analysis.recommendation is None:
        reason = "it has no result yet" if analysis is None else analysis.reason
        raise ExportError(f"nothing can be recommended: {reason}; write --config best, or a configuration")
    return next(row for row in board.rows if row.candidate == analysis.recommendation.candidate)


def _listed(rows: Sequence[LeaderboardRow]) -> str:
    lines = [f"  {_row_label(row)}" for row in rows[:_MOST_LISTED]]
    return "\n".join([*lines, *([f"  and {len(rows) - len(lines)} more"] if len(rows) > len(lines) else [])])


def _row_label(row: LeaderboardRow) -> str:
    estimate = f" --estimate {row.estimate}" if row.estimate else ""
    parameters = f" --parameters '{row.parameters}'" if row.point else ""
    return f"--config {row.configuration}{estimate} --arm {row.arm} --batch-size {row.batch_size}{parameters}"


def _trained(ledger: Ledger, study: StudySummary, row: LeaderboardRow, seed: int | None) -> TrainedRow:
    """The checkpoint of `seed` under the row; by default the one with the lowest validation loss of that row."""
    from bln_search.api import TrainedRow

    own = [one for one in evaluations(ledger.engine, study.id) if _belongs(one, row)]
    losses = {
        one.seed: one.evaluation.loss
        for one in own
        if one.evaluation.key.split is Split.VALIDATION and one.evaluation.loss is not None
    }
    if seed is None:
        seed = min(losses, key=lambda one: (losses[one], one))
    if seed not in losses:
        seeds = ", ".join(str(one) for one in sorted(losses))
        raise ExportError(f"this row has no result of seed {seed}; it has seeds {seeds}")
    trial = next(one for one in trial_results(ledger.engine, study.id) if _is_of(one, row, seed))
    assert trial.checkpoint is not None
    if trial.freed_at is not None:
        raise ExportError(
            f"the network of seed {seed} was given up on {trial.freed_at:%Y-%m-%d} to free room, only its figures are "
            "kept: `bln-search run` in another home trains it again, or write --config recommended"
        )
    return TrainedRow(
        study=study.name,
        study_digest=study.spec.digest,
        trial=trial.spec,
        checkpoint=trial.checkpoint,
        configuration=row.configuration,
        estimate=row.estimate,
        batch_size=row.batch_size,
        figures=_figures(row, [one.evaluation for one in own if one.seed == seed]),
    )


def _belongs(one: RecordedEvaluation, row: LeaderboardRow) -> bool:
    key = one.evaluation.key
    found = one.arm, one.point, key.configuration, key.estimate, key.batch_size
    return found == row.candidate


def _is_of(trial: TrialResult, row: LeaderboardRow, seed: int) -> bool:
    return (trial.spec.arm.label, trial.point, trial.spec.seed) == (row.arm, row.point, seed)


def _figures(row: LeaderboardRow, own: Sequence[Evaluation]) -> Figures:
    from bln_search.api.description import Figure, Figures

    return Figures(
        seeds=row.seeds,
        over_seeds={
            split.value: Figure(
                loss=figures.loss.mean,
                accuracy=figures.accuracy.mean,
                loss_deviation=figures.loss.deviation,
                accuracy_deviation=figures.accuracy.deviation,
            )
            for split, figures in row.figures.items()
        },
        this_seed={
            one.key.split.value: Figure(loss=one.loss, accuracy=one.accuracy)
            for one in own
            if one.loss is not None and one.accuracy is not None
        },
    )
