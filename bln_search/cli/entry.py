"""Entry point of the command `bln-search`: it begins what takes seconds before it loads the verbs, which takes one."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from os.path import isfile

from bln_search.cli.standard_streams import prepare_standard_streams, report_unwritable_output
from bln_search.core.garbage_collection import load_modules_without_garbage_collection
from bln_search.core.stop_signals import find_stop_signal_name, interrupt_on_stop_signals
from bln_search.core.version import VERSION

_INTERRUPTED = 130
"""Exit code; `ExitCode` has it, too."""


def main() -> None:
    """Run the command."""
    prepare_standard_streams()
    if sys.argv[1:] in (["--version"], ["-V"]):
        with report_unwritable_output():
            print(f"bln-search {VERSION}")
        return
    try:
        with interrupt_on_stop_signals():
            _load_and_run_command()
    except KeyboardInterrupt as interrupt:  # while the modules were loaded
        sys.stderr.write(f"interrupted by {find_stop_signal_name(interrupt)}; run the same command again\n")
        sys.exit(_INTERRUPTED)


def _load_and_run_command() -> None:
    if _may_run_local_trials(sys.argv[1:]):
        from bln_search.execution.executors.process_server import start_process_server

        with suppress(OSError):  # the first trial reports it
            start_process_server()  # it loads torch while this process loads the verbs
    with load_modules_without_garbage_collection():
        from bln_search.cli.main import main as run_command
    try:
        run_command()
    finally:
        gc.freeze()  # with torch loaded, the collection at the end of the process would take a second


def _may_run_local_trials(arguments: list[str]) -> bool:
    """Return whether these arguments run a file that exists, and do not name the executor `ray` or ask for help."""
    is_elsewhere = any(argument in ("ray", "--executor=ray", "--help") for argument in arguments)
    return arguments[:1] == ["run"] and not is_elsewhere and any(map(isfile, arguments[1:]))
