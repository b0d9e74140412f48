"""The command `bln-search`."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from typing import Annotated, NoReturn

import typer

from bln_search import __version__
from bln_search.cli import (
    analysis,
    backups,
    checkpoints,
    data,
    database,
    exports,
    layer_search,
    leaderboard,
    per_layer,
    processes,
    publish,
    reevaluation,
    remote,
    studies,
    tokens,
)
from bln_search.cli.exit_codes import Exit, Stopped
from bln_search.cli.extras import missing_package
from bln_search.cli.output import errors
from bln_search.core.errors import (
    BlnSearchError,
    ClusterSilentError,
    DataError,
    ModelError,
    SpecError,
    StorageFullError,
    UnknownStudyError,
)

app = typer.Typer(
    name="bln-search",
    help="Find the inference configuration of a normalized network's statistics that works best.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data.app, name="data")
app.add_typer(database.app, name="db")
app.add_typer(checkpoints.app, name="checkpoints")
app.add_typer(tokens.app, name="token")
studies.register(app)
analysis.register(app)
layer_search.register(app)
per_layer.register(app)
leaderboard.register(app)
publish.register(app)
exports.register(app)
reevaluation.register(app)
remote.register(app)
processes.register(app)
backups.register(app)


def _version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        typer.echo(f"bln-search {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and stop.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more on standard error.")] = False,
) -> None:
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(levelname)s %(message)s")


_EXITS: tuple[tuple[type[BlnSearchError], Exit], ...] = (
    (SpecError, Exit.BAD_INPUT),
    (DataError, Exit.BAD_INPUT),
    (ModelError, Exit.BAD_INPUT),
    (UnknownStudyError, Exit.NOT_FOUND),
    (StorageFullError, Exit.DISK_FULL),
    (BlnSearchError, Exit.FAILED),
)


_OF_STATUS = {400: Exit.BAD_INPUT, 404: Exit.NOT_FOUND, 422: Exit.BAD_INPUT, 507: Exit.DISK_FULL}
"""What a service's answer comes to: as if the command had found it out here."""


def main() -> None:
    """Run the command; every error made on purpose is one clear line and an exit code, see `Exit`."""
    try:
        app()
    except SystemExit as end:
        if end.code == Exit.INTERRUPTED and not isinstance(end, Stopped):
            _say_interrupted()
        raise
    except BlnSearchError as error:
        _end_with(error)
    except ModuleNotFoundError as error:
        missing = missing_package(error)
        if missing is None:
            raise
        _end_with(missing)
    except KeyboardInterrupt:
        _say_interrupted()
        sys.exit(Exit.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(Exit.FAILED)


def _end_with(error: BlnSearchError) -> NoReturn:
    errors.print(f"[bold red]error:[/] {_escaped(str(error))}", soft_wrap=True, highlight=False)
    code = next(code for kind, code in _EXITS if isinstance(error, kind))
    code = _OF_STATUS.get(getattr(error, "status", 0), code)  # of a service, whose client may not be installed here
    if isinstance(error, ClusterSilentError):
        _end_at_once(code)
    sys.exit(code)


def _end_at_once(code: Exit) -> NoReturn:
    """Do what is to be done at the end, but take nothing apart: Ray's threads, still there, would crash meanwhile."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _say_interrupted() -> None:
    errors.print("interrupted; what was finished is kept: the same command goes on from here", soft_wrap=True)


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")
