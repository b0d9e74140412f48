"""The leaderboard in the terminal, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import json

from rich.console import Console

from bln_search.core.enums import Split
from bln_search.reports import leaderboard_csv, leaderboard_json, leaderboard_table
from bln_search.reports.export import COLUMNS
from bln_search.reports.terminal.leaderboard import compact_table, unranked_reasons
from tests.reports.leaderboards import make_board


def text(renderable):
    buffer = io.StringIO()
    Console(file=buffer, width=200).print(renderable)
    return buffer.getvalue()


def test_the_table_shows_figures_spread_and_reasons():
    table_text = text(leaderboard_table(make_board(), "title"))
    assert "0.3125 ± 0.0884" in table_text
    assert "50.00" in table_text
    assert "undefined" in table_text
    assert unranked_reasons(make_board()) == ["no rank for FTFF: undefined: no value, as m = 1"]


def test_compact_table_fits_a_narrow_terminal():
    buffer = io.StringIO()
    Console(file=buffer, width=80).print(compact_table(make_board(), "title"))
    assert "0.3125" in buffer.getvalue()
    assert "…" not in buffer.getvalue()


def test_terminal_table_ranked_on_test_has_a_warning():
    assert "optimistic" in text(leaderboard_table(make_board(Split.TEST)))
    assert "optimistic" not in text(leaderboard_table(make_board()))


def test_csv_and_json_have_the_same_rows():
    lines = list(csv.DictReader(io.StringIO(leaderboard_csv(make_board()))))
    document = json.loads(leaderboard_json(make_board(), {"study": "s"}))
    assert [line["configuration"] for line in lines] == ["FFFF", "TTFF", "FTFF"]
    assert tuple(lines[0]) == (*COLUMNS, "ranked_on")
    for line, row in zip(lines, document["rows"], strict=True):
        assert line.pop("ranked_on") == document["ranked_on"] == "validation"
        assert {key: "" if value is None else str(value) for key, value in row.items()} == line
    assert document["rows"][2]["validation_loss_mean"] is None
    assert document["study"] == "s"
