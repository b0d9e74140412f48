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

from bln_search.cli.environment import check_ray_options, make_environment, make_executor
from bln_search.cli.exit_codes import ExitCode
from bln_search.cli.extras import missing_training_package_error
from bln_search.cli.options import (
    DatabaseOption,
    DataOption,
    DeviceOption,
    ExecutorName,
    ExecutorOption,
    FormatOption,
    GpusOption,
    RayAddressOption,
    ServerOption,
    TokenOption,
    WorkersOption,
)
from bln_search.cli.output import Format, errors
from bln_search.cli.records import json_value, print_records
from bln_search.cli.sources import open_client, service_address
from bln_search.core.errors import MissingPackageError
from bln_search.core.files.disk import disk_space_problem
from bln_search.core.files.log_files import LogFile
from bln_search.core.logs import configure_logs
from bln_search.settings import Settings, load_settings
from bln_search.storage.ledger import connect_ledger, open_ledger

_log = logging.getLogger(__name__)
_WORKER_COLUMNS = ("name", "device", "version", "started_at", "heartbeat_at")


def serve(
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, metavar="PORT", help="Port; 0 for a free one.")
    ] = 8000,
    database: DatabaseOption = None,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Start no worker; `bln-search worker` runs the studies.")
    ] = False,
) -> None:
    """Serve the REST API, and start a worker. The first start prints a link with an access token, once."""
    try:
        from service.server import serve_forever
    except ModuleNotFoundError as error:
        raise MissingPackageError(error.name, "web") from None

    settings = load_settings()
    _configure_logs(settings)
    settings = settings.model_copy(update={"database": database}) if database else settings
    serve_forever(settings, host, port, with_worker=not no_worker and _training_available())


def _configure_logs(settings: Settings, role: str | None = None) -> None:
    """Log to standard error and to the log file. Service and worker share their settings, so a worker adds its role."""
    file = None
    if settings.log_file is not None:
        file = LogFile(settings.log_file, settings.log_file_bytes, settings.log_file_count)
        file = file if role is None else file.for_role(role)
    configure_logs(settings.log_format, file=file)


def _training_available() -> bool:
    """Return whether the packages for training are installed; log a warning if they are not."""
    missing = missing_training_package_error()
    if missing is not None:
        _log.warning("the service starts no worker: %s", missing)
    return missing is None


def worker(
    data: DataOption = None,
    database: DatabaseOption = None,
    device: DeviceOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = ExecutorName.LOCAL,
    ray_address: RayAddressOption = None,
    gpus_per_trial: GpusOption = None,
    once: Annotated[
        bool, typer.Option("--once", help="Exit when the queue is empty and no export is requested.")
    ] = False,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Take studies from the queue of a database and run them, one after another.

    On SIGTERM the worker releases the running study and keeps its finished trials; a second SIGTERM ends it at once.
    """
    check_ray_options(executor, ray_address, gpus_per_trial)
    settings = load_settings()
    _configure_logs(settings, role="worker")
    from bln_search.worker.exports.builder import ArchiveLimits, ExportBuilder
    from bln_search.worker.loop import Worker

    environment = make_environment(settings, data, device, elsewhere=executor is ExecutorName.RAY)
    if with_parent:
        threading.Thread(target=_stop_with_parent, daemon=True, name="parent").start()
    with ExitStack() as stack:
        trial_executor = stack.enter_context(make_executor(executor, environment, workers, ray_address, gpus_per_trial))
        ledger = stack.enter_context(closing(open_ledger(database or settings.database_url)))

        def find_disk_problem() -> str | None:
            return disk_space_problem(settings.result_folders, settings.free_bytes)

        limits = ArchiveLimits(settings.export_lifetime, settings.export_bytes)
        exports = ExportBuilder(ledger, environment, limits, find_disk_problem)
        worker = Worker(ledger, environment, trial_executor, settings.running_studies, find_disk_problem, exports)
        worker.work(once=once)


def workers(
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    here: Annotated[
        bool, typer.Option("--here", help="Only those of this machine or container; exit code 1 if there is none.")
    ] = False,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """List the workers with a heartbeat within 30 s: those of the database, or of a service."""
    settings = load_settings()
    service = service_address(database, server, settings)
    if service is not None:
        with open_client(service, token, settings) as client:
            live_workers = client.workers()
    else:
        with closing(connect_ledger(database or settings.database_url)) as ledger:
            live_workers = [vars(record) for record in ledger.workers.list_live()]
    prefix = f"{socket.gethostname()}/"
    records = [
        {name: json_value(worker[name]) for name in _WORKER_COLUMNS}
        for worker in live_workers
        if not here or worker["name"].startswith(prefix)
    ]
    if records or output_format is not Format.TABLE:
        print_records(records, _WORKER_COLUMNS, output_format, optional=("started_at", "version"))
    if not records:
        errors.print(f"no worker{' of this machine' if here else ''} has sent a heartbeat within 30 s")
        if here:
            raise typer.Exit(ExitCode.FAILED)


def _stop_with_parent() -> None:
    """Wait for the end of standard input, a pipe whose other end the parent process holds, then stop as on SIGTERM."""
    while os.read(sys.stdin.fileno(), 1024):  # a read of sys.stdin would block the shutdown with its lock
        pass
    os.kill(os.getpid(), signal.SIGTERM)
