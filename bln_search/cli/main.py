"""The command `bln-search`."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from typing import Annotated, NoReturn

import typer

from bln_search import __version__
from bln_search.cli.commands import VerbGroup, add_summaries_to_app
from bln_search.cli.exit_codes import ExitCode, InterruptedCommandExit
from bln_search.cli.extras import find_package_error_for_module_not_found
from bln_search.cli.output import print_error, print_note
from bln_search.cli.standard_streams import report_unwritable_output
from bln_search.core.errors import (
    BlnSearchError,
    ClusterUnresponsiveError,
    DataError,
    ModelError,
    SpecError,
    StorageFullError,
    TagError,
    UnknownStudyError,
)
from bln_search.core.logs import RedactingFormatter
from bln_search.core.stop_signals import find_stop_signal_name, interrupt_on_stop_signals

app = typer.Typer(
    name="bln-search",
    cls=VerbGroup,
    help="Find the best inference configuration of a network's normalization layers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
add_summaries_to_app(app)


def _print_version_and_exit(requested: bool) -> None:  # noqa: FBT001 - the signature of a typer callback
    if requested:
        typer.echo(f"bln-search {__version__}")
        raise typer.Exit


@app.callback()
def _configure_logging_option(
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool,
        typer.Option(
            "--version", "-V", is_eager=True, callback=_print_version_and_exit, help="Print the version and stop."
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more on standard error.")] = False,
) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(RedactingFormatter("%(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])


_EXIT_BY_ERROR: tuple[tuple[type[BlnSearchError], ExitCode], ...] = (
    (SpecError, ExitCode.BAD_INPUT),
    (DataError, ExitCode.BAD_INPUT),
    (ModelError, ExitCode.BAD_INPUT),
    (TagError, ExitCode.BAD_INPUT),
    (UnknownStudyError, ExitCode.NOT_FOUND),
    (StorageFullError, ExitCode.DISK_FULL),
    (BlnSearchError, ExitCode.FAILED),
)


_COMPLETE = "_BLN_SEARCH_COMPLETE"
"""Variable with which a shell asks for completions."""

_EXIT_BY_STATUS = {400: ExitCode.BAD_INPUT, 404: ExitCode.NOT_FOUND, 422: ExitCode.BAD_INPUT, 507: ExitCode.DISK_FULL}
"""Exit code by HTTP status of a service: the same as for the same error without a service."""


def main() -> None:
    """Run the command. Print a `BlnSearchError` as one line and exit with its code, see `ExitCode`."""
    with report_unwritable_output(), interrupt_on_stop_signals():
        _run_app_and_translate_errors()


def _run_app_and_translate_errors() -> None:
    try:
        app()
    except SystemExit as end:
        if end.code == ExitCode.INTERRUPTED and not isinstance(end, InterruptedCommandExit):
            _print_interrupted_message(end)
        raise
    except BlnSearchError as error:
        _exit_with_error(error)
    except ModuleNotFoundError as error:
        if _COMPLETE in os.environ:  # the shell would show an error in the command that is written
            sys.exit()
        package_error = find_package_error_for_module_not_found(error, sys.argv[1:])
        if package_error is None:
            raise
        _exit_with_error(package_error)
    except KeyboardInterrupt as interrupt:
        _print_interrupted_message(interrupt)
        sys.exit(ExitCode.INTERRUPTED)


def _exit_with_error(error: BlnSearchError) -> NoReturn:
    print_error(str(error))
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


def _print_interrupted_message(error: BaseException) -> None:
    name = find_stop_signal_name(error)
    kept = "finished trials are kept; " if "run" in sys.argv[1:] else ""
    print_note(f"interrupted by {name}; {kept}run the same command again{' to resume' if kept else ''}")
