"""Output that cannot be written: one line and exit code 1, or quietly where only messages are lost."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

import pytest

from bln_search.cli.exit_codes import ExitCode

COMMAND = [sys.executable, "-m", "bln_search", "--version"]
PRINT = """
import os, sys
from bln_search.cli.standard_streams import prepare_standard_streams, report_unwritable_output
prepare_standard_streams()
with report_unwritable_output():
    print(sys.argv[1].encode().decode("unicode_escape"))
    print("a message", file=sys.stderr)
"""


def shell(redirection, **environment):
    words = ["sh", "-c", f'"$@" {redirection}', "sh", *COMMAND]
    return subprocess.run(words, capture_output=True, text=True, env={**os.environ, **environment})


@pytest.mark.parametrize(("redirection", "reason"), [(">/dev/full", "No space"), (">&-", "Bad file descriptor")])
def test_results_that_cannot_be_written_are_an_error_of_one_line(redirection, reason):
    done = shell(redirection)
    assert done.returncode == ExitCode.FAILED == 1
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "<&-"])
def test_a_command_with_results_needs_no_standard_error(redirection):
    done = shell(redirection)
    assert (done.returncode, done.stdout.split()[0]) == (0, "bln-search")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"PYTHONIOENCODING": "ascii"}, b"Grosse lambda -> ?? +/- e ... |-- ?"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, b"Grosse lambda -> ?? +/- e ... |-- ?"),
        ({"PYTHONIOENCODING": "latin-1"}, "Größe lambda -> ?? ± é ... |-- ?".encode("latin-1")),
        ({"PYTHONIOENCODING": "utf-8"}, "Größe λ → 日本 ± é … │── \U0001f600".encode()),
    ],
)
def test_characters_that_the_encoding_lacks_are_replaced(environment, expected):
    text = "Größe λ → 日本 ± é … │── \U0001f600".encode("unicode_escape").decode()  # the locale decodes arguments
    words = [sys.executable, "-c", PRINT, text]
    done = subprocess.run(words, capture_output=True, env={**os.environ, "PYTHONUTF8": "1", **environment})
    assert (done.returncode, done.stderr) == (0, b"a message\n")
    assert done.stdout.rstrip() == expected


def test_a_closed_pipe_of_standard_error_does_not_end_the_command():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", PRINT, "x"], stdout=subprocess.PIPE, stderr=write)
    os.close(write)
    assert (done.returncode, done.stdout) == (0, b"x\n")


@pytest.mark.parametrize("characters", [1, 1_000, 1_000_000])
def test_a_full_pipe_of_standard_error_that_does_not_block_drops_messages(characters):
    read, write = os.pipe()
    os.set_blocking(write, False)
    with suppress(BlockingIOError):
        while True:
            os.write(write, b"x" * 1_000)
    code = PRINT + f"    print('y' * {characters}, file=sys.stderr)\n"
    done = subprocess.run([sys.executable, "-c", code, "x"], stdout=subprocess.PIPE, stderr=write, timeout=20)
    os.close(read)
    os.close(write)
    assert (done.returncode, done.stdout) == (0, b"x\n")
