"""The command `bln-search`."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from typing import Annotated, NoReturn

import typer

from bln_search import __version__
from bln_search.cli import backups, checkpoints, data, database, processes, tokens
from bln_search.cli.exit_codes import ExitCode, Interrupted
from bln_search.cli.extras import missing_package
from bln_search.cli.output import errors
from bln_search.cli.studies import (
    analysis,
    export,
    layer_search,
    layers,
    leaderboard,
    listing,
    publish,
    reevaluation,
    remote,
    run,
)
from bln_search.core.errors import (
    BlnSearchError,
    ClusterUnresponsiveError,
    DataError,
    ModelError,
    SpecError,
    StorageFullError,
    UnknownStudyError,
)

app = typer.Typer(
    name="bln-search",
    help="Find the best inference configuration of a network's normalization layers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data.app, name="data")
app.add_typer(database.app, name="db")
app.add_typer(checkpoints.app, name="checkpoints")
app.add_typer(tokens.app, name="token")
for module in (
    *(run, listing, analysis, layer_search, layers, leaderboard, publish, export, reevaluation, remote),
    *(processes, backups),
):
    module.register(app)


def _print_version(requested: bool) -> None:  # noqa: FBT001 - the signature of a typer callback
    if requested:
        typer.echo(f"bln-search {__version__}")
        raise typer.Exit


@app.callback()
def _common_options(
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and stop.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more on standard error.")] = False,
) -> None:
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(levelname)s %(message)s")


_EXIT_BY_ERROR: tuple[tuple[type[BlnSearchError], ExitCode], ...] = (
    (SpecError, ExitCode.BAD_INPUT),
    (DataError, ExitCode.BAD_INPUT),
    (ModelError, ExitCode.BAD_INPUT),
    (UnknownStudyError, ExitCode.NOT_FOUND),
    (StorageFullError, ExitCode.DISK_FULL),
    (BlnSearchError, ExitCode.FAILED),
)


_EXIT_BY_STATUS = {400: ExitCode.BAD_INPUT, 404: ExitCode.NOT_FOUND, 422: ExitCode.BAD_INPUT, 507: ExitCode.DISK_FULL}
"""Exit code by HTTP status of a service: the same as for the same error without a service."""


def main() -> None:
    """Run the command. Print a `BlnSearchError` as one line and exit with its code, see `ExitCode`."""
    try:
        app()
    except SystemExit as end:
        if end.code == ExitCode.INTERRUPTED and not isinstance(end, Interrupted):
            _print_interrupted()
        raise
    except BlnSearchError as error:
        _exit_with_error(error)
    except ModuleNotFoundError as error:
        package_error = missing_package(error)
        if package_error is None:
            raise
        _exit_with_error(package_error)
    except KeyboardInterrupt:
        _print_interrupted()
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(ExitCode.FAILED)


def _exit_with_error(error: BlnSearchError) -> NoReturn:
    errors.print(f"[bold red]error:[/] {_escape_markup(str(error))}", soft_wrap=True, highlight=False)
    code = next(code for error_type, code in _EXIT_BY_ERROR if isinstance(error, error_type))
    code = _EXIT_BY_STATUS.get(getattr(error, "status", 0), code)  # no import: the client may not be installed
    if isinstance(error, ClusterUnresponsiveError):
        _exit_without_cleanup(code)
    sys.exit(code)


def _exit_without_cleanup(code: ExitCode) -> NoReturn:
    """Run the exit functions and end the process: Ray's threads would crash during the interpreter's shutdown."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _print_interrupted() -> None:
    errors.print("interrupted; finished trials are kept; run the same command again to resume", soft_wrap=True)


def _escape_markup(text: str) -> str:
    return text.replace("[", "\\[")
