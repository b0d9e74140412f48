"""Every form of the leaderboard has the metrics of each condition, and their mean and worst value."""

from __future__ import annotations

import csv
import io
import json

import pytest
from pyarrow import parquet
from rich.console import Console

from bln_search.reports.charts.condition_losses import condition_losses_chart
from bln_search.reports.export import leaderboard_csv, leaderboard_json, leaderboard_jsonl, row_from_json_fields
from bln_search.reports.parquet import leaderboard_parquet
from bln_search.reports.publication import leaderboard_latex, leaderboard_markdown
from bln_search.reports.terminal.leaderboard import leaderboard_table
from tests.reports.leaderboards import make_board, make_board_with_conditions

NAMES = ("fog-3", "dim_light", "mean", "worst")
FIRST = {"fog-3": 1.3125, "dim_light": 2.3125, "mean": 1.8125, "worst": 2.3125}
"""Mean validation losses of the first row."""


@pytest.fixture(scope="module")
def board():
    return make_board_with_conditions()


@pytest.mark.parametrize("write", [leaderboard_json, leaderboard_jsonl])
def test_json_rows_have_metrics_by_condition(write, board):
    text = write(board, {})
    rows = json.loads(text)["rows"] if write is leaderboard_json else list(map(json.loads, text.splitlines()))
    assert {name: fields["validation_loss_mean"] for name, fields in rows[0]["conditions"].items()} == FIRST
    assert rows[1]["conditions"]["dim_light"]["test_accuracy_mean"] is None
    assert tuple(map(row_from_json_fields, rows)) == board.rows


def test_csv_has_columns_by_condition(board):
    rows = list(csv.DictReader(io.StringIO(leaderboard_csv(board))))
    assert {name: float(rows[0][f"{name}_validation_loss_mean"]) for name in NAMES} == FIRST
    assert float(rows[0]["dim_light_test_accuracy_mean"]) == pytest.approx(0.5 / 3)
    assert rows[1]["worst_test_loss_mean"] == ""


def test_parquet_has_columns_by_condition(board):
    table = parquet.read_table(io.BytesIO(leaderboard_parquet(board, {})))
    assert {name: table[f"{name}_validation_loss_mean"].to_pylist()[0] for name in NAMES} == FIRST
    assert table["dim_light_validation_loss_mean"].to_pylist()[1] is None
    assert str(table.schema.field("worst_test_accuracy_deviation").type) == "double"


def test_markdown_and_latex_have_columns_by_condition(board):
    header, _, first, second = leaderboard_markdown(board).splitlines()[:4]
    headings, cells, missing = ([cell.strip() for cell in line.split("|")] for line in (header, first, second))
    assert cells[headings.index("fog-3 validation loss")].startswith("1.3125 ±")
    assert cells[headings.index("worst condition validation loss")].startswith("2.3125 ±")
    assert missing[headings.index("mean over conditions test accuracy %")] == "–"
    latex = leaderboard_latex(board)
    assert r"dim\_light validation loss &" in latex
    assert len({line.count("&") for line in latex.splitlines() if line.endswith(r"\\")}) == 1


def test_studies_without_conditions_have_no_such_columns():
    board = make_board()
    for text in (leaderboard_csv(board), leaderboard_json(board, {}), leaderboard_markdown(board)):
        assert "condition" not in text
        assert "worst" not in text


def test_chart_has_the_losses_of_the_first_rows(board):
    chart = condition_losses_chart(board)
    assert [list(trace["x"]) for trace in chart.figure["data"]] == [["clean", "fog-3", "dim_light"]] * 2
    assert chart.figure["data"][0]["y"] == [0.3125, 1.3125, 2.3125]
    assert chart.figure["data"][1]["y"] == [0.5625, 1.5625, None]
    assert len(chart.rows) == 5
    assert condition_losses_chart(make_board()) is None


def printed(table, width):
    text = io.StringIO()
    Console(file=text, width=width).print(table)
    return text.getvalue()


def test_terminal_shows_summaries_where_they_fit(board):
    narrow, wide = (printed(leaderboard_table(board, has_details=True), width) for width in (80, 400))
    assert max(map(len, narrow.splitlines()[:4])) <= 80
    assert "1.8125" in wide
    assert "1.3125" not in wide
    for text in (narrow, wide):
        assert "Conditions: fog-3, dim_light: --details" in text


def test_details_show_the_metrics_of_each_condition(board):
    text = printed(leaderboard_table(board, all_columns=True), 80)
    for value in ("1.3125", "2.3125", "1.3750", "2.3750", "25.00", "16.67"):
        assert value in text
    assert max(map(len, text.splitlines())) <= 80
