"""Running the command as people do: its words in, exit code and both outputs out.

A call that ends by itself runs in this process, where everything it needs is loaded. `start` makes a process of its
own, for calls that are killed, interrupted or stand beside others, and so does `call(..., process=True)`: trials, too,
are then in processes that have the environment of the call and not that of whichever call came first.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import warnings

import pytest

from bln_search.cli.main import main
from bln_search.cli.output import choose_output_width, results

PROGRAM = "import sys; from bln_search.cli.main import main; main()"


def command(*arguments):
    """The words of a call of `bln-search`."""
    return [sys.executable, "-c", PROGRAM, *map(str, arguments)]


def call(*arguments, home=None, timeout=240, check=None, process=False):
    """A finished call. check: the exit code it must have. timeout: seconds, of a process of its own."""
    words = [str(argument) for argument in arguments]
    environment = {"BLN_SEARCH_HOME": str(home)} if home else {}
    if process or "ray" in words:  # Ray's runtime lives and dies with its process
        whole = {**os.environ, **environment}
        whole.pop("COLUMNS", None)
        done = subprocess.run(command(*words), capture_output=True, text=True, timeout=timeout, env=whole)
    else:
        done = _call_here(words, environment)
    if check is not None:
        assert done.returncode == check, done.stderr
    return done


def _call_here(words, environment):
    """The same in this process; warnings do what they do outside of tests."""
    outputs = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("default")
        patch.delenv("COLUMNS", raising=False)  # of the test runner's terminal, as is the width of the console
        patch.setattr(results, "width", choose_output_width({}, is_terminal=False))
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["bln-search", *words])
        for name, output in zip(("stdout", "stderr"), outputs, strict=True):
            patch.setattr(sys, name, output)
        code = 0
        try:
            main()
        except SystemExit as end:
            code = 0 if end.code is None else int(end.code)
    texts = [output.buffer.getvalue().decode() for output in outputs]
    return subprocess.CompletedProcess(["bln-search", *words], code, *texts)


def heed_interrupts():
    """A test run in the background ignores Ctrl-C, and its children would too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(*arguments, home, ignored=(), process_group=None):
    """A call under way. ignored: signals that it ignores from its start, as under nohup."""

    def set_signals():
        heed_interrupts()
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)

    environment = {**os.environ, "BLN_SEARCH_HOME": str(home)}
    return subprocess.Popen(
        command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=set_signals,
        process_group=process_group,
    )
