"""Every form of the leaderboard has the metrics on the training split and the generalization gaps."""

from __future__ import annotations

import csv
import io
import json

import pytest
from pyarrow import parquet
from rich.console import Console
from scipy import stats

from bln_search.core.enums import Split
from bln_search.reports.export import leaderboard_csv, leaderboard_json, leaderboard_jsonl, row_from_json_fields
from bln_search.reports.parquet import leaderboard_parquet
from bln_search.reports.publication import leaderboard_latex, leaderboard_markdown
from bln_search.reports.terminal.leaderboard import leaderboard_table
from tests.reports.leaderboards import GAP_LOSSES, make_board, make_board_with_train_split

GAPS = {
    split: [loss - training for loss, training in zip(GAP_LOSSES[split], GAP_LOSSES[Split.TRAIN], strict=True)]
    for split in (Split.VALIDATION, Split.TEST)
}
"""Losses minus training losses of the first row by seed."""


def expected_gap(split):
    """Mean, standard deviation and ends of the 95 % t interval over the two seeds."""
    first, second = GAPS[split]
    mean, deviation = (first + second) / 2, abs(first - second) / 2**0.5
    low, high = stats.t.interval(0.95, 1, loc=mean, scale=deviation / 2**0.5)
    return {"mean": mean, "deviation": deviation, "low": low, "high": high}


@pytest.fixture(scope="module")
def board():
    return make_board_with_train_split()


def check_fields(row, convert=float):
    assert convert(row["train_loss_mean"]) == pytest.approx(0.28125)
    assert convert(row["train_accuracy_mean"]) == 0.5
    for split in GAPS:
        for part, value in expected_gap(split).items():
            assert convert(row[f"{split}_gap_{part}"]) == pytest.approx(value)


@pytest.mark.parametrize("write", [leaderboard_json, leaderboard_jsonl])
def test_json_rows_have_the_gap_with_its_interval(write, board):
    text = write(board, {})
    rows = json.loads(text)["rows"] if write is leaderboard_json else list(map(json.loads, text.splitlines()))
    check_fields(rows[0])
    assert not any("gap" in name or name.startswith("train") for name in rows[2])
    assert tuple(map(row_from_json_fields, rows)) == board.rows


def test_csv_and_parquet_have_the_gap_with_its_interval(board):
    rows = list(csv.DictReader(io.StringIO(leaderboard_csv(board))))
    check_fields(rows[0])
    assert rows[2]["validation_gap_mean"] == ""
    table = parquet.read_table(io.BytesIO(leaderboard_parquet(board, {})))
    check_fields(table.to_pylist()[0])
    assert {str(table.schema.field(f"test_gap_{part}").type) for part in ("mean", "low", "high")} == {"double"}


def test_markdown_and_latex_have_columns_of_the_training_split(board):
    header, _, first, _, undefined = leaderboard_markdown(board).splitlines()[:5]
    headings, cells, missing = ([cell.strip() for cell in line.split("|")] for line in (header, first, undefined))
    assert cells[headings.index("train loss")].startswith("0.2812 ± 0.04")
    assert cells[headings.index("validation gap")] == "0.3438 ± 0.1326"
    assert missing[headings.index("test gap")] == "–"
    assert "Validation gap &" in leaderboard_latex(board)


def test_terminal_shows_the_training_split_where_it_fits(board):
    for width, all_columns in ((400, False), (80, True)):
        text = io.StringIO()
        Console(file=text, width=width).print(leaderboard_table(board, all_columns=all_columns))
        for value in ("0.2812", "0.3438", "0.5312", "gap: loss minus train loss"):
            assert value in " ".join(text.getvalue().split())
    text = io.StringIO()
    Console(file=text, width=80).print(leaderboard_table(board))
    assert max(map(len, text.getvalue().splitlines())) <= 80
    assert "0.6250" in text.getvalue()


def test_boards_without_the_training_split_have_no_such_columns():
    board = make_board()
    for text in (leaderboard_csv(board), leaderboard_json(board, {}), leaderboard_markdown(board)):
        assert "train" not in text
        assert "gap" not in text
