"""Publications, terminal and chart have the metrics of conditions, and those on the training split."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from bln_search.reports.charts.ranked_rows import condition_losses_chart
from bln_search.reports.publication import leaderboard_latex, leaderboard_markdown
from bln_search.reports.terminal.leaderboard import leaderboard_table
from tests.reports.leaderboards import make_board, make_board_with_conditions, make_board_with_train_split


@pytest.fixture(scope="module")
def conditions():
    return make_board_with_conditions()


@pytest.fixture(scope="module")
def trained():
    return make_board_with_train_split()


def printed(table, width):
    text = io.StringIO()
    Console(file=text, width=width).print(table)
    return text.getvalue()


def markdown_rows(board):
    header, _, *lines = leaderboard_markdown(board).split("\n\n")[0].splitlines()
    names, *rows = ([cell.strip() for cell in line.split("|")] for line in (header, *lines))
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_publications_have_columns_by_condition(conditions):
    first, second = markdown_rows(conditions)
    assert first["fog-3 validation loss"].startswith("1.3125 ±")
    assert first["worst condition validation loss"].startswith("2.3125 ±")
    assert second["mean over conditions test accuracy %"] == "–"
    latex = leaderboard_latex(conditions)
    assert r"dim\_light validation loss &" in latex
    assert len({line.count("&") for line in latex.splitlines() if line.endswith(r"\\")}) == 1


def test_publications_have_columns_of_the_training_split(trained):
    first, _, undefined = markdown_rows(trained)
    assert first["train loss"].startswith("0.2812 ± 0.04")
    assert first["validation gap"] == "0.3438 ± 0.1326"
    assert undefined["test gap"] == "–"
    assert "Validation gap &" in leaderboard_latex(trained)
    assert not any(word in leaderboard_markdown(make_board()) for word in ("train", "gap", "condition", "worst"))


def test_terminal_shows_summaries_of_conditions_where_they_fit(conditions):
    narrow, wide = (printed(leaderboard_table(conditions, has_details=True), width) for width in (80, 400))
    assert max(map(len, narrow.splitlines()[:4])) <= 80
    assert "1.8125" in wide
    assert "1.3125" not in wide
    for text in (narrow, wide):
        assert "Conditions: fog-3, dim_light: --details" in text


def test_details_show_the_metrics_of_each_condition(conditions):
    text = printed(leaderboard_table(conditions, all_columns=True), 80)
    for value in ("1.3125", "2.3125", "1.3750", "2.3750", "25.00", "16.67"):
        assert value in text
    assert max(map(len, text.splitlines())) <= 80


def test_terminal_shows_the_training_split_where_it_fits(trained):
    for width, all_columns in ((400, False), (80, True)):
        text = " ".join(printed(leaderboard_table(trained, all_columns=all_columns), width).split())
        for value in ("0.2812", "0.3438", "0.5312", "gap: loss minus train loss"):
            assert value in text
    text = printed(leaderboard_table(trained), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "0.6250" in text


def test_chart_has_the_losses_of_the_first_rows(conditions):
    chart = condition_losses_chart(conditions)
    assert [list(trace["x"]) for trace in chart.figure["data"]] == [["clean", "fog-3", "dim_light"]] * 2
    assert chart.figure["data"][0]["y"] == [0.3125, 1.3125, 2.3125]
    assert chart.figure["data"][1]["y"] == [0.5625, 1.5625, None]
    assert len(chart.rows) == 5
    assert condition_losses_chart(make_board()) is None
