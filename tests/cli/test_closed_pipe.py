"""A command whose output nobody reads any more ends quietly, as one that SIGPIPE ends."""

from __future__ import annotations

import subprocess

import pytest

from bln_search.cli.exit_codes import ExitCode
from tests.end_to_end.commands import command


@pytest.mark.parametrize("words", [("settings",), pytest.param(("--help",), marks=pytest.mark.slow)], ids=" ".join)
def test_a_closed_pipe_is_no_error(words):
    process = subprocess.Popen(command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == ExitCode.BROKEN_PIPE == 141
    process.stderr.close()
