"""The verbs that stay: serve, worker. And the settings they read."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import ExitStack, closing
from typing import Annotated

import typer
from pydantic import SecretStr

from bln_search.cli.output import results
from bln_search.cli.place import make_place
from bln_search.cli.sources import DatabaseOption
from bln_search.cli.studies import (
    DataOption,
    DeviceOption,
    ExecutorName,
    ExecutorOption,
    GpusOption,
    RayAddressOption,
    WorkersOption,
    make_executor,
)
from bln_search.core.errors import MissingPackageError
from bln_search.core.logs import configure_logs
from bln_search.settings import Settings, load_settings, settings_file
from bln_search.storage.ledger import open_ledger


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command()(serve)
    app.command()(worker)
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
    configure_logs(settings.log_format)
    chosen = settings.model_copy(update={"database": database or settings.database_url})
    serve_forever(chosen, host, port, with_worker=not no_worker)


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
    settings = load_settings()
    configure_logs(settings.log_format)
    from bln_search.worker.loop import Worker

    place = make_place(settings, data, device)
    if with_parent:
        threading.Thread(target=_end_with_parent, daemon=True, name="parent").start()
    with ExitStack() as stack:
        chosen = stack.enter_context(make_executor(executor, place, workers, ray_address, gpus_per_trial))
        ledger = stack.enter_context(closing(open_ledger(database or settings.database_url)))
        Worker(ledger, place, chosen, settings.running_studies).work(once=once)


def _end_with_parent() -> None:
    """Standard input is a pipe that whoever started this process holds; it closes however that one ends."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def show_settings() -> None:
    """Every setting: its value, the environment variable that sets it, and what it is for."""
    settings = load_settings()
    results.print(f"file: {settings_file()}{'' if settings_file().is_file() else ' (not there)'}", highlight=False)
    for name, field in Settings.model_fields.items():
        value = getattr(settings, name)
        shown = "(secret)" if isinstance(value, SecretStr) else value
        origin = "" if name in settings.model_fields_set else " (default)"
        results.print(
            f"BLN_SEARCH_{name.upper()} = {shown}{origin}\n    {field.description}", markup=False, highlight=False
        )
