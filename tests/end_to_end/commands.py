"""Running the command as people do: as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

PROGRAM = "import sys; from bln_search.cli.main import main; main()"


def command(*arguments):
    """The words of a call of `bln-search`."""
    return [sys.executable, "-c", PROGRAM, *map(str, arguments)]


def call(*arguments, home=None, timeout=240, check=None):
    """A finished call. check: the exit code it must have."""
    environment = {**os.environ, **({"BLN_SEARCH_HOME": str(home)} if home else {})}
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=timeout, env=environment)
    if check is not None:
        assert done.returncode == check, done.stderr
    return done


def _heed_interrupts():
    """A test run in the background ignores Ctrl-C, and its children would too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(*arguments, home):
    """A call under way."""
    environment = {**os.environ, "BLN_SEARCH_HOME": str(home)}
    return subprocess.Popen(
        command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=_heed_interrupts,
    )
