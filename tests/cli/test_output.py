"""Width of results in a terminal and in a pipe, and tables of rows."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest
from rich.console import Console

from bln_search.cli.output import make_records_table, output_width


@pytest.mark.parametrize(
    ("columns", "is_terminal", "width"),
    [
        ("80", False, 80),
        ("80", True, 80),
        ("200", False, 200),
        (None, False, 160),
        (None, True, None),
        ("0", False, 160),
        ("wide", False, 160),
        ("", True, None),
    ],
)
def test_columns_is_respected_in_terminal_and_pipe(columns, is_terminal, width):
    environment = {} if columns is None else {"COLUMNS": columns}
    assert output_width(environment, is_terminal=is_terminal) == width


def test_the_console_of_a_pipe_has_the_width_of_columns():
    code = "from bln_search.cli.output import results; print(results.width)"
    environment = {**os.environ, "COLUMNS": "72"}
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert process.stdout.strip() == "72"


ROWS = [
    {"arm": "bln", "seed": 0, "loss": "0.1234", "reason": None, "checkpoint": f"{0:064x}.safetensors"},
    {"arm": "ln", "seed": 11, "loss": "10.5000", "reason": None, "checkpoint": f"{1:064x}.safetensors"},
]


def printed(table, width=80):
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue()


def test_numbers_are_right_aligned_and_names_are_folded():
    text = printed(make_records_table(ROWS, tuple(ROWS[0])))
    assert "reason" not in text
    assert "…" not in text
    first, second = (line for line in text.splitlines() if line.startswith(("bln", "ln")))
    assert first.index("0.1234") + len("0.1234") == second.index("10.5000") + len("10.5000")
    assert max(map(len, text.splitlines())) <= 80
    column = first.index("0000000")
    name = "".join(line[column:].strip() for line in text.splitlines()[2:])
    assert name == f"{0:064x}.safetensors{1:064x}.safetensors"
