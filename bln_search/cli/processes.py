"""The verbs that stay: serve, worker. Who is there, and the settings they read."""

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
from pydantic import SecretStr

from bln_search.cli.environment import make_place
from bln_search.cli.exit_codes import Exit
from bln_search.cli.extras import missing_for_training
from bln_search.cli.output import errors, results
from bln_search.cli.sources import DatabaseOption
from bln_search.cli.studies import (
    DataOption,
    DeviceOption,
    ExecutorName,
    ExecutorOption,
    GpusOption,
    RayAddressOption,
    WorkersOption,
    check_ray_options,
    make_executor,
)
from bln_search.core.errors import MissingPackageError
from bln_search.core.log_files import LogFile
from bln_search.core.logs import configure_logs
from bln_search.core.urls import without_password
from bln_search.settings import Settings, load_settings, settings_file
from bln_search.storage.browse import workers_seen
from bln_search.storage.clock import DatabaseClock
from bln_search.storage.engine import make_engine
from bln_search.storage.ledger import open_ledger

_log = logging.getLogger(__name__)


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command()(serve)
    app.command()(worker)
    app.command()(workers)
    app.command("settings")(show_settings)


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 takes a free one.")] = 8000,
    database: DatabaseOption = None,
    no_worker: Annotated[bool, typer.Option("--no-worker", help="Studies are run by `bln-search worker`.")] = False,
) -> None:
    """Serve the REST API, with a worker beside it. The first start prints a link with its token, once."""
    try:
        from service.server import serve_forever
    except ModuleNotFoundError as error:
        raise MissingPackageError(error.name, "web") from None

    settings = load_settings()
    _start_logs(settings)
    chosen = settings.model_copy(update={"database": database}) if database else settings
    serve_forever(chosen, host, port, with_worker=not no_worker and _can_train())


def _start_logs(settings: Settings, role: str | None = None) -> None:
    """To standard error, and to a file of this kind of process: settings are the same for a service and its worker."""
    file = None
    if settings.log_file is not None:
        file = LogFile(settings.log_file, settings.log_file_bytes, settings.log_file_count)
        file = file if role is None else file.of(role)
    configure_logs(settings.log_format, file=file)


def _can_train() -> bool:
    """Whether a worker could start here; where not, the service says so once and serves without one."""
    missing = missing_for_training()
    if missing is not None:
        _log.warning("no worker is started beside the service: %s", missing)
    return missing is None


def worker(
    data: DataOption = None,
    database: DatabaseOption = None,
    device: DeviceOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = ExecutorName.LOCAL,
    ray_address: RayAddressOption = None,
    gpus_per_trial: GpusOption = None,
    once: Annotated[bool, typer.Option("--once", help="End when no study waits.")] = False,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Take studies from the queue of a database and run them, one after another.

    SIGTERM hands the study under way back, with all that is finished; a second one ends at once.
    """
    check_ray_options(executor, ray_address, gpus_per_trial)
    settings = load_settings()
    _start_logs(settings, role="worker")
    from bln_search.worker.loop import Worker

    place = make_place(settings, data, device, elsewhere=executor is ExecutorName.RAY)
    if with_parent:
        threading.Thread(target=_end_with_parent, daemon=True, name="parent").start()
    with ExitStack() as stack:
        chosen = stack.enter_context(make_executor(executor, place, workers, ray_address, gpus_per_trial))
        ledger = stack.enter_context(closing(open_ledger(database or settings.database_url)))
        Worker(ledger, place, chosen, settings.running_studies, lambda: settings.lacking_room).work(once=once)


def workers(
    database: DatabaseOption = None,
    here: Annotated[
        bool, typer.Option("--here", help="Only those of this machine, or container; exit code 1 where none is there.")
    ] = False,
) -> None:
    """List the workers that were heard of in the last half minute."""
    engine = make_engine(database or load_settings().database_url)
    try:
        seen = workers_seen(engine, DatabaseClock(engine)())
    finally:
        engine.dispose()
    own = f"{socket.gethostname()}/"
    found = [one for one in seen if not here or one.name.startswith(own)]
    for one in found:
        line = f"{one.name}  {one.device}  {one.version}  {one.heartbeat_at:%Y-%m-%d %H:%M:%S}"
        results.print(line, markup=False, highlight=False)
    if here and not found:
        errors.print("no worker of this machine was heard of in the last half minute")
        raise typer.Exit(Exit.FAILED)


def _end_with_parent() -> None:
    """Standard input is a pipe that whoever started this process holds; it closes however that one ends."""
    while os.read(sys.stdin.fileno(), 1024):  # not through sys.stdin, whose lock would be in the way of an end
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def show_settings() -> None:
    """Every setting: its value, the environment variable that sets it, and what it is for."""
    settings = load_settings()
    results.print(f"file: {settings_file()}{'' if settings_file().is_file() else ' (not there)'}", highlight=False)
    for name, field in Settings.model_fields.items():
        value = getattr(settings, name)
        shown = "(secret)" if isinstance(value, SecretStr) else without_password(str(value))
        origin = "" if name in settings.model_fields_set else " (default)"
        results.print(
            f"BLN_SEARCH_{name.upper()} = {shown}{origin}\n    {field.description}", markup=False, highlight=False
        )
