"""The verbs about studies: run, validate, list, show."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from bln_search.cli.environment import make_place
from bln_search.cli.exit_codes import Exit
from bln_search.cli.leaderboard import print_leaderboard
from bln_search.cli.output import Format, errors, results
from bln_search.cli.progress import PlainProgress, TerminalProgress
from bln_search.cli.sources import (
    DatabaseOption,
    LedgerSource,
    ServerOption,
    StudyArgument,
    TokenOption,
    open_source,
    study_line,
)
from bln_search.core.registry import plugin_models
from bln_search.core.states import StudyState, TrialState
from bln_search.settings import load_settings
from bln_search.specs import load_study, planned_rows, trials_of
from bln_search.specs.trial import border_trials
from bln_search.storage.belonging import mark
from bln_search.storage.ledger import Ledger, open_ledger
from bln_search.storage.queries import trials

if TYPE_CHECKING:
    from bln_search.execution.environment import Place
    from bln_search.execution.executors.base import Executor


class ExecutorName(StrEnum):
    """Who carries trials out."""

    LOCAL = "local"
    RAY = "ray"


DataOption = Annotated[
    Path | None,
    typer.Option("--data", exists=True, file_okay=False, help="Folder of data sets. [env: BLN_SEARCH_DATA]"),
]
DeviceOption = Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:1 or auto.")]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=1, help="Trials side by side; by default one a core or GPU.")
]
ExecutorOption = Annotated[ExecutorName, typer.Option("--executor", help="Processes on this machine, or Ray Tune.")]
RayAddressOption = Annotated[
    str | None, typer.Option("--ray-address", help="Ray cluster to join, host:port; else one is started.")
]
GpusOption = Annotated[
    float | None, typer.Option("--gpus-per-trial", min=0.0, help="With ray: GPUs, or the part of one.")
]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print.")]


_TRIAL_COLUMNS = (
    "arm",
    "parameters",
    "seed",
    "state",
    "epoch",
    "judged under",
    "validation loss",
    "checkpoint",
    "reason",
)


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command()(run)
    app.command()(validate)
    app.command("list")(list_studies)
    app.command()(show)


def run(
    file: Annotated[Path, typer.Argument(help="Study file.", show_default=False)],
    data: DataOption = None,
    database: DatabaseOption = None,
    device: DeviceOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = ExecutorName.LOCAL,
    ray_address: RayAddressOption = None,
    gpus_per_trial: GpusOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Train and evaluate what is left of a study, then print its ranked table.

    Interrupted at any moment, the same command goes on: what is finished is kept.
    """
    check_ray_options(executor, ray_address, gpus_per_trial)
    study = load_study(file)
    settings = load_settings()
    from bln_search.search.preflight import check_study
    from bln_search.worker import run_study
    from bln_search.worker.analysis import Attended, analyzed

    place = make_place(settings, data, device, elsewhere=executor is ExecutorName.RAY)
    _say(check_study(study, place))
    with ExitStack() as stack:
        chosen = stack.enter_context(make_executor(executor, place, workers, ray_address, gpus_per_trial))
        ledger = stack.enter_context(closing(open_ledger(database or settings.database_url)))
        study_id = ledger.accept(study)
        mark(place.checkpoints, ledger.engine)
        with TerminalProgress() if errors.is_terminal else PlainProgress() as watcher:
            state = run_study(ledger, study_id, chosen, watcher)
        if state is StudyState.COMPLETE:
            attended = Attended(lambda line: errors.print(line, markup=False, soft_wrap=True), workers)
            analyzed(ledger, study_id, place, attended)
        print_leaderboard(LedgerSource(ledger), ledger.study(study_id), output)
        if state is not StudyState.COMPLETE:
            _print_failures(ledger, study_id)
            raise typer.Exit(Exit.INCOMPLETE)


def _say(remarks: Iterable[str]) -> None:
    """What one should know of the data, on standard error."""
    for remark in remarks:
        errors.print(remark, markup=False, highlight=False, soft_wrap=True)


def check_ray_options(name: ExecutorName, ray_address: str | None, gpus_per_trial: float | None) -> None:
    """Raise BadParameter for an option of Ray where Ray is not asked for: trials would run elsewhere than was meant."""
    if name is not ExecutorName.RAY and (ray_address or gpus_per_trial is not None):
        raise typer.BadParameter("it belongs to --executor ray", param_hint="--ray-address, --gpus-per-trial")


def make_executor(
    name: ExecutorName, place: Place, workers: int | None, ray_address: str | None, gpus_per_trial: float | None
) -> AbstractContextManager[Executor]:
    """The executor of that name, ready; a cluster that is not there, or too small, is an error now."""
    if name is ExecutorName.RAY:
        from bln_search.execution.executors.ray.executor import RayExecutor

        return RayExecutor(place, workers, address=ray_address, gpus_per_trial=gpus_per_trial)
    from bln_search.execution.executors.local import LocalExecutor

    return nullcontext(LocalExecutor(place, workers))


def validate(file: Annotated[Path, typer.Argument(help="Study file.", show_default=False)]) -> None:
    """Check a study file and print what it stands for, without training anything."""
    study = load_study(file)
    from bln_search.data.catalog import find_entry

    if study.model.name in plugin_models():
        from bln_search.search.preflight import check_names  # loads torch, as the package will

        check_names(study)
    _say(f"{study.data.name}: {remark}" for remark in find_entry(study.data.name).remarks)
    table = Table(title=Text(f"{study.name}: {study.title}"), title_justify="left")
    for column in ("arm", "method", "semantics", "seeds", "rows", "population"):
        table.add_column(column)
    planned = trials_of(study)
    for trial in {trial.arm.label: trial for trial in border_trials(study)}.values():
        arm, rows = trial.arm, len(planned_rows(trial)) * len(trial.batch_sizes)
        table.add_row(
            arm.label, arm.method, arm.semantics, str(len(study.seeds)), str(rows), ", ".join(trial.estimates)
        )
    results.print(table)
    if study.search is not None and study.sampled:
        count = study.sampled_points * len(study.seeds)
        results.print(
            f"{count} trials at most, at points that {study.search.sampler} suggests, pruner {study.search.pruner}; "
            "the file is valid"
        )
        return
    cells = sum(len(planned_rows(trial)) * len(trial.batch_sizes) for trial in planned)
    results.print(f"{len(planned)} trials, {cells} evaluations on each of validation and test; the file is valid")


def list_studies(
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """List the studies of the database, or of a service, newest first."""
    with open_source(database, server, token) as source:
        rows = source.lines()
    print_rows(rows, ("id", "name", "state", "trials", "finished", "failed", "created"), output)


def show(
    study: StudyArgument,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show a study: its trials, their states and checkpoints."""
    with open_source(database, server, token) as source:
        summary = source.find(study)
        listed = source.trials(summary.id)
    if output is Format.JSON:
        whole = {
            **study_line(summary),
            "spec": summary.spec.model_dump(mode="json"),
            "trial_list": [asdict(trial) for trial in listed],
        }
        results.print_json(json.dumps(whole))
        return
    if output is Format.TABLE:
        results.print(
            f"{summary.name} (study {summary.id}, {summary.state}) {summary.spec.title}".strip(), markup=False
        )
        if summary.reason:
            results.print(f"reason: {summary.reason}", markup=False, soft_wrap=True)
    rows = [
        {
            "arm": trial.arm,
            "parameters": trial.parameters,
            "seed": trial.seed,
            "state": trial.state.value,
            "epoch": trial.checkpoint.epoch if trial.checkpoint else None,
            "judged under": trial.checkpoint.judged_under if trial.checkpoint else None,
            "validation loss": f"{trial.checkpoint.validation_loss:.4f}" if trial.checkpoint else None,
            "checkpoint": trial.checkpoint.file if trial.checkpoint else None,
            "reason": trial.reason,
        }
        for trial in listed
    ]
    print_rows(rows, _TRIAL_COLUMNS, output)


def _print_failures(ledger: Ledger, study_id: int) -> None:
    for trial in trials(ledger.engine, study_id):
        if trial.state is TrialState.FAILED:
            errors.print(f"failed: {trial.arm} seed {trial.seed}: {trial.reason}", markup=False, soft_wrap=True)


def print_rows(rows: Sequence[Mapping[str, object]], columns: tuple[str, ...], output: Format) -> None:
    """Rows on standard output, as asked."""
    if output is Format.JSON:
        typer.echo(json.dumps(rows, indent=1))
    elif output is Format.CSV:
        import csv
        import sys

        writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        table = Table(header_style="bold")
        for column in columns:
            table.add_column(column)
        for row in rows:
            table.add_row(*(Text("" if row[column] is None else str(row[column])) for column in columns))
        results.print(table)
