"""Commands that run and validate a study file."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated

import typer

from bln_search.cli.environment import check_ray_options, make_environment, make_executor
from bln_search.cli.exit_codes import ExitCode
from bln_search.cli.options import (
    DatabaseOption,
    DataOption,
    DeviceOption,
    ExecutorName,
    ExecutorOption,
    GpusOption,
    RayAddressOption,
    WorkersOption,
)
from bln_search.cli.output import ResultFormat, errors, results, rows_table
from bln_search.cli.sources import LedgerSource
from bln_search.cli.studies.leaderboard import DetailsOption, print_leaderboard
from bln_search.cli.studies.progress import progress_watcher
from bln_search.core.registry import plugin_models
from bln_search.core.states import StudyState, TrialState
from bln_search.settings import load_settings
from bln_search.specs import load_study, planned_rows, trials_of
from bln_search.specs.trial import boundary_trials
from bln_search.storage.ledger import Ledger, open_ledger


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(run)
    app.command()(validate)


def run(
    file: Annotated[Path, typer.Argument(help="Study file.", show_default=False)],
    data: DataOption = None,
    database: DatabaseOption = None,
    device: DeviceOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = ExecutorName.LOCAL,
    ray_address: RayAddressOption = None,
    gpus_per_trial: GpusOption = None,
    output: Annotated[ResultFormat, typer.Option("--format", help="Output format.")] = ResultFormat.TABLE,
    details: DetailsOption = False,
) -> None:
    """Train and evaluate the remaining trials of a study, then print its ranked table.

    After an interruption the same command resumes, and finished trials are kept.
    """
    check_ray_options(executor, ray_address, gpus_per_trial)
    study = load_study(file)
    settings = load_settings()
    from bln_search.search.preflight import check_study
    from bln_search.worker import run_study
    from bln_search.worker.analysis import AnalysisOptions, get_or_create_analysis

    environment = make_environment(settings, data, device, elsewhere=executor is ExecutorName.RAY)
    _print_remarks(check_study(study, environment))
    with ExitStack() as stack:
        trial_executor = stack.enter_context(make_executor(executor, environment, workers, ray_address, gpus_per_trial))
        ledger = stack.enter_context(closing(open_ledger(database or settings.database_url)))
        study_id = ledger.studies.accept(study)
        ledger.checkpoints.claim_store(environment.checkpoints)
        with progress_watcher(trial_executor.worker_count) as watcher:
            state = run_study(ledger, study_id, trial_executor, watcher)
        if state is StudyState.COMPLETE:
            options = AnalysisOptions(lambda line: errors.print(line, markup=False, soft_wrap=True), workers)
            get_or_create_analysis(ledger, study_id, environment, options)
        print_leaderboard(LedgerSource(ledger), ledger.studies.get(study_id), output, details=details)
        if state is not StudyState.COMPLETE:
            _print_failures(ledger, study_id)
            raise typer.Exit(ExitCode.INCOMPLETE)


def _print_remarks(remarks: Iterable[str]) -> None:
    """Print remarks about the data set on standard error."""
    for remark in remarks:
        errors.print(remark, markup=False, highlight=False, soft_wrap=True)


def validate(file: Annotated[Path, typer.Argument(help="Study file.", show_default=False)]) -> None:
    """Check a study file and print its arms and trials, without training."""
    study = load_study(file)
    from bln_search.data.catalog import find_entry

    if study.model.name in plugin_models():
        from bln_search.search.preflight import check_names  # imports torch, as the plugin does

        check_names(study)
    _print_remarks(f"{study.data.name}: {remark}" for remark in find_entry(study.data.name).remarks)
    planned = trials_of(study)
    arms = {trial.arm.label: trial for trial in boundary_trials(study)}
    rows = [
        {
            "arm": label,
            "method": trial.arm.method,
            "semantics": trial.arm.semantics,
            "seeds": len(study.seeds),
            "rows": len(planned_rows(trial)) * len(trial.batch_sizes),
            "population": ", ".join(trial.estimates),
        }
        for label, trial in arms.items()
    ]
    results.print(rows_table(rows, tuple(rows[0]), f"{study.name}: {study.title}"))
    if study.search is not None and study.sampled:
        count = study.sampled_points * len(study.seeds)
        results.print(
            f"at most {count} trials, at points that {study.search.sampler} suggests, pruner {study.search.pruner}; "
            "the file is valid"
        )
        return
    evaluation_count = sum(len(planned_rows(trial)) * len(trial.batch_sizes) for trial in planned)
    results.print(
        f"{len(planned)} trials, {evaluation_count} evaluations on each of validation and test; the file is valid"
    )


def _print_failures(ledger: Ledger, study_id: int) -> None:
    for trial in ledger.trials.list_trials(study_id):
        if trial.state is TrialState.FAILED:
            errors.print(f"failed: {trial.arm} seed {trial.seed}: {trial.reason}", markup=False, soft_wrap=True)
