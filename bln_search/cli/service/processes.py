"""Commands for service and worker processes: serve, worker, workers."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from contextlib import ExitStack, closing
from typing import Annotated

import typer

from bln_search.cli import options
from bln_search.cli.environment import (
    check_executor_options,
    make_execution_environment,
    make_executor,
    make_study_tracking,
)
from bln_search.cli.exit_codes import ExitCode
from bln_search.cli.extras import find_missing_training_package_error
from bln_search.cli.output import RecordsFormat, print_note
from bln_search.cli.records import print_records, time_to_iso_text
from bln_search.cli.sources.opening import find_existing_database, find_service_address, open_service_client
from bln_search.core.files.disk import find_disk_space_problem
from bln_search.core.files.log_files import LogFileSettings
from bln_search.core.logs import configure_logging
from bln_search.settings import Settings, load_settings
from bln_search.storage.ledger import open_and_upgrade_ledger, open_ledger_without_schema_check

_log = logging.getLogger(__name__)
_WORKER_COLUMNS = ("name", "device", "version", "started_at", "heartbeat_at")


def serve(
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, metavar="PORT", help="Port; 0 for a free one.")
    ] = 8000,
    database: options.DatabaseOption = None,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Start no worker; `bln-search worker` runs the studies.")
    ] = False,
) -> None:
    """Serve the REST API, and start a worker. The first start prints a link with an access token, once."""
    from service.server import serve_forever

    settings = load_settings()
    _configure_process_logs(settings)
    settings = settings.model_copy(update={"database": database}) if database else settings
    serve_forever(settings, host, port, with_worker=not no_worker and _is_training_available_or_warn())


def _configure_process_logs(settings: Settings, role: str | None = None) -> None:
    """Log to standard error and to the log file. Service and worker share their settings, so a worker adds its role."""
    file = None
    if settings.log_file is not None:
        file = LogFileSettings(settings.log_file, settings.log_file_bytes, settings.log_file_count)
        file = file if role is None else file.with_role_in_file_name(role)
    configure_logging(settings.log_format, file=file)


def _is_training_available_or_warn() -> bool:
    """Return whether the packages for training are installed; log a warning if they are not."""
    missing = find_missing_training_package_error()
    if missing is not None:
        _log.warning("the service starts no worker: %s", missing)
    return missing is None


def worker(
    data: options.DataOption = None,
    database: options.DatabaseOption = None,
    device: options.DeviceOption = None,
    workers: options.WorkersOption = None,
    executor: options.ExecutorOption = None,
    ray_address: options.RayAddressOption = None,
    gpus_per_trial: options.GpusOption = None,
    trials_per_gpu: options.TrialsPerGpuOption = None,
    trials_per_process: options.FusedTrialsOption = None,
    once: Annotated[
        bool, typer.Option("--once", help="Exit when the queue is empty and no export is requested.")
    ] = False,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Take studies from the queue of a database and run them, one after another.

    On SIGTERM the worker releases the running study and keeps its finished trials; a second SIGTERM ends it at once.
    """
    check_executor_options(executor, ray_address, gpus_per_trial, trials_per_process)
    settings = load_settings()
    environment = make_execution_environment(settings, data, device, elsewhere=executor is options.ExecutorName.RAY)
    executor_context = make_executor(
        executor, environment, workers, ray_address, gpus_per_trial, trials_per_gpu, trials_per_process
    )
    _configure_process_logs(settings, role="worker")
    from bln_search.worker.exports.builder import ArchiveRetentionLimits, ExportBuilder
    from bln_search.worker.loop import QueueWorker

    if with_parent:
        threading.Thread(target=_stop_when_parent_ends, daemon=True, name="parent").start()
    with ExitStack() as stack:
        trial_executor = stack.enter_context(executor_context)
        ledger = stack.enter_context(closing(open_and_upgrade_ledger(settings.checked_database_url(database))))
        ledger.checkpoints.check_store_at_start(environment.checkpoints)

        def find_problem_of_result_folders() -> str | None:
            return find_disk_space_problem(settings.output_folders, settings.free_bytes)

        limits = ArchiveRetentionLimits(settings.export_lifetime, settings.export_bytes)
        exports = ExportBuilder(ledger, environment, limits, find_problem_of_result_folders)
        worker = QueueWorker(
            ledger,
            environment,
            trial_executor,
            settings.running_studies,
            find_problem_of_result_folders,
            exports,
            make_study_tracking(settings, ledger, environment),
        )
        worker.run_until_stopped(once=once)


def workers(
    database: options.DatabaseOption = None,
    server: options.ServerOption = None,
    token: options.TokenOption = None,
    here: Annotated[
        bool, typer.Option("--here", help="Only those of this machine or container; exit code 1 if there is none.")
    ] = False,
    output_format: options.FormatOption = RecordsFormat.TABLE,
) -> None:
    """List the workers with a heartbeat within 30 s: those of the database, or of a service."""
    settings = load_settings()
    service = find_service_address(database, server, settings)
    if service is not None:
        with open_service_client(service, token, settings) as client:
            live_workers = client.workers()
    else:
        with closing(open_ledger_without_schema_check(find_existing_database(database, settings))) as ledger:
            live_workers = [vars(record) for record in ledger.workers.list_live_workers()]
    prefix = f"{socket.gethostname()}/"
    records = [
        {name: time_to_iso_text(worker[name]) for name in _WORKER_COLUMNS}
        for worker in live_workers
        if not here or worker["name"].startswith(prefix)
    ]
    if records or output_format is not RecordsFormat.TABLE:
        print_records(records, _WORKER_COLUMNS, output_format, optional=("started_at", "version"))
    if not records:
        print_note(f"no worker{' of this machine' if here else ''} has sent a heartbeat within 30 s")
        if here:
            raise typer.Exit(ExitCode.FAILED)


def _stop_when_parent_ends() -> None:
    """Wait for the end of standard input, a pipe whose other end the parent process holds, then stop as on SIGTERM."""
    while os.read(sys.stdin.fileno(), 1024):  # a read of sys.stdin would block the shutdown with its lock
        pass
    os.kill(os.getpid(), signal.SIGTERM)
