"""Width of results in a terminal and in a pipe, and tables of rows."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from rich.console import Console

from bln_search.cli.output import choose_output_width, make_records_table


@pytest.mark.parametrize(
    ("columns", "is_terminal", "width"),
    [
        ("80", False, 80),
        ("80", True, 80),
        ("200", False, 200),
        (None, False, 1_000),
        (None, True, None),
        ("0", False, 1_000),
        ("wide", False, 1_000),
        ("", True, None),
    ],
)
def test_columns_is_respected_in_terminal_and_pipe(columns, is_terminal, width):
    environment = {} if columns is None else {"COLUMNS": columns}
    assert choose_output_width(environment, is_terminal=is_terminal) == width


PROGRAM = """
from bln_search.cli.output import errors, make_records_table, print_line, results

errors.print("word " * 60, end="")
print(results.width, end="\\n---\\n")
records = [{"name": "a", "state": "b" * 20}, {"name": "c", "state": "d"}]
results.print(make_records_table(records, ("name", "state")))
results.print("first  \\n second ")
print("---")
print_line("word-with-hyphens " * 20)
"""


@pytest.fixture(scope="module")
def piped():
    """Errors, and results in parts, of a process that writes to pipes: without a width and with one of 60 columns."""
    written = {}
    for columns in ("", "60"):
        environment = {**os.environ, "COLUMNS": columns}
        process = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)
        assert process.returncode == 0, process.stderr
        written[columns] = (process.stderr, *process.stdout.split("---\n"))
    return written


ROWS = [
    {"arm": "bln", "seed": 0, "loss": "0.1234", "reason": None, "checkpoint": f"{0:064x}.safetensors"},
    {"arm": "ln", "seed": 11, "loss": "10.5000", "reason": None, "checkpoint": f"{1:064x}.safetensors"},
]


def printed(table, width=80):
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue()


def test_numbers_are_right_aligned_and_long_names_are_shortened():
    text = printed(make_records_table(ROWS, tuple(ROWS[0])))
    assert "reason" not in text
    first, second = (line for line in text.splitlines() if line.startswith(("bln", "ln")))
    assert first.index("0.1234") + len("0.1234") == second.index("10.5000") + len("10.5000")
    assert max(map(len, text.splitlines())) <= 80
    assert first.split()[-1] == f"{0:064x}"[:23] + "…"
    assert f"{1:064x}.safetensors" in printed(make_records_table(ROWS, tuple(ROWS[0])), width=200)


def test_optional_columns_are_dropped_in_their_order_and_named():
    rows = [{"name": "a" * 20, "owner": "b" * 20, "state": "running", "created": "2026-11-24T11:14:35+00:00"}]
    text = printed(make_records_table(rows, tuple(rows[0]), optional=("created", "owner")), width=60)
    assert "created" not in text.splitlines()[0]
    assert "b" * 20 in text
    assert "Not shown at 60 columns: created" in text


def test_times_are_printed_to_the_minute_in_one_cell():
    moment = datetime(2026, 11, 24, 11, 14, 35, 123, tzinfo=UTC)
    text = printed(make_records_table([{"at": moment.isoformat()}], ("at",)), width=24)
    assert datetime.fromisoformat(text.splitlines()[-1].strip()) == moment.replace(second=0, microsecond=0)


def test_printed_results_have_no_spaces_at_the_ends_of_lines(piped):
    _, _, table, *_ = piped[""]
    lines = table.split("\n")
    assert lines == [line.rstrip() for line in lines]
    assert lines[-3:] == ["first", " second", ""]
    assert "b" * 20 in table


@pytest.mark.parametrize("columns", ["60", ""])
def test_a_sentence_is_wrapped_where_the_output_has_a_width(piped, columns):
    *_, sentence = piped[columns]
    lines = sentence.splitlines()
    assert len(lines) == (7 if columns else 1)
    assert sentence.split() == ["word-with-hyphens"] * 20
    assert all(len(line) <= 60 for line in lines) == bool(columns)
