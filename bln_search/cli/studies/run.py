"""Command `run`: run a study file on this machine or on a Ray cluster."""

from __future__ import annotations

from contextlib import ExitStack, closing

import typer

from bln_search.cli import options
from bln_search.cli.environment import (
    check_executor_options,
    make_execution_environment,
    make_executor,
    make_study_tracking,
)
from bln_search.cli.exit_codes import ExitCode
from bln_search.cli.output import RecordsFormat, make_progress_line_printer, print_failed_trials, print_note
from bln_search.cli.sources.ledger import LedgerSource
from bln_search.cli.studies.progress.display import choose_progress_watcher
from bln_search.cli.studies.results.leaderboard import print_or_write_leaderboard
from bln_search.core.errors import UnknownStudyError
from bln_search.core.garbage_collection import load_modules_without_garbage_collection
from bln_search.core.states import StudyState
from bln_search.execution.executors.process_server import start_process_server
from bln_search.settings import load_settings
from bln_search.specs import load_study
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger


def run(
    file: options.StudyFileArgument,
    data: options.DataOption = None,
    database: options.DatabaseOption = None,
    device: options.DeviceOption = None,
    workers: options.WorkersOption = None,
    executor: options.ExecutorOption = None,
    ray_address: options.RayAddressOption = None,
    gpus_per_trial: options.GpusOption = None,
    trials_per_gpu: options.TrialsPerGpuOption = None,
    trials_per_process: options.FusedTrialsOption = None,
    output_format: options.FormatOption = RecordsFormat.TABLE,
    quiet: options.QuietOption = False,
    details: options.DetailsOption = False,
    accept_code_change: options.AcceptCodeChangeOption = False,
) -> None:
    """Train and evaluate the remaining trials of a study, then print its ranked table.

    After an interruption the same command resumes, and finished trials are kept.
    """
    check_executor_options(executor, ray_address, gpus_per_trial, trials_per_process)
    study = load_study(file)
    if executor is not options.ExecutorName.RAY:
        start_process_server()  # it loads torch while this process does
    settings = load_settings()
    with load_modules_without_garbage_collection():
        from bln_search.search.preflight import run_preflight_checks
        from bln_search.worker import run_study
        from bln_search.worker.analysis import AnalysisLayerSearchOptions, get_or_compute_analysis

    environment = make_execution_environment(settings, data, device, elsewhere=executor is options.ExecutorName.RAY)
    executor_context = make_executor(
        executor, environment, workers, ray_address, gpus_per_trial, trials_per_gpu, trials_per_process
    )
    for remark in run_preflight_checks(study, environment):
        print_note(remark)
    with ExitStack() as stack:
        trial_executor = stack.enter_context(executor_context)
        ledger = stack.enter_context(closing(open_and_upgrade_ledger(settings.checked_database_url(database))))
        ledger.checkpoints.check_store(environment.checkpoints)
        environment.checkpoints.check_read_and_write_access()  # creates the folder
        ledger.checkpoints.claim_store(environment.checkpoints)
        track_study = make_study_tracking(settings, ledger, environment)
        namesake = _find_study_of_name(ledger, study.name)
        study_id = ledger.studies.store_study_once(study)
        if namesake is not None and namesake.id != study_id:
            print_note(
                f"study {namesake.id} has the name {study.name}, too, and another content; this file is study "
                f"{study_id}: give commands the number"
            )
        if ledger.studies.get(study_id).state is StudyState.COMPLETE:
            print_note(f"study {study_id} ({study.name}) is complete already, in {ledger}")
        with track_study(study_id):
            with choose_progress_watcher(trial_executor.num_parallel_trials, quiet=quiet) as watcher:
                state = run_study(
                    ledger,
                    study_id,
                    trial_executor,
                    watcher,
                    checkpoints=environment.checkpoints,
                    accept_code_change=accept_code_change,
                    on_look=make_progress_line_printer(quiet=quiet),
                )
            if state is StudyState.COMPLETE:
                layer_search = AnalysisLayerSearchOptions(make_progress_line_printer(quiet=quiet), workers)
                get_or_compute_analysis(ledger, study_id, environment, layer_search)
        print_or_write_leaderboard(LedgerSource(ledger), ledger.studies.get(study_id), output_format, details=details)
        if study.stream is not None and not quiet:
            print_note(f"`bln-search streams {study_id}` prints the arms of adaptation")
        if state is not StudyState.COMPLETE:
            print_failed_trials(ledger.trials.list_trials(study_id))
            raise typer.Exit(ExitCode.INCOMPLETE)


def _find_study_of_name(ledger: Ledger, name: str) -> StudyRecord | None:
    """The newest study of a command with this name; None if there is none."""
    try:
        record = ledger.studies.get_by_name_or_id(name)
    except UnknownStudyError:  # or several accounts have one
        return None
    return record if record.name == name and not record.owner else None
