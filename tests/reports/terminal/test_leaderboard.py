"""The leaderboard in a terminal: figures, spread, reasons, and what a narrow terminal keeps."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from bln_search.core.enums import Split
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.looks import level_of_look
from bln_search.reports.publication import leaderboard_latex, leaderboard_markdown
from bln_search.reports.terminal.comparison import row_comparison_table
from bln_search.reports.terminal.leaderboard import leaderboard_table, unranked_reason_lines
from tests.ranking.comparisons import compared
from tests.reports.leaderboards import make_board


def printed(table, width=200):
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue()


def names(board, **more):
    return [column.name for column in leaderboard_table(board, **more).columns if not column.has_only_empty_cells]


def test_the_table_shows_figures_spread_and_reasons():
    text = printed(leaderboard_table(make_board(), "title"))
    assert text.startswith("title")
    assert "0.3125 ± 0.0884" in text
    assert "50.00" in text
    assert "undefined" in text
    assert unranked_reason_lines(make_board()) == ["no rank for FTFF: undefined: no value, as m = 1"]


def test_a_narrow_terminal_keeps_the_loss_that_ranks():
    for width in (80, 60, 50):
        text = printed(leaderboard_table(make_board()), width=width)
        assert "0.3125" in text
        assert "…" not in text
        assert max(map(len, text.splitlines())) <= width
        assert "Not shown at" in text


def test_the_recommended_row_is_marked():
    board = make_board()
    assert "recommended" not in names(board)
    assert "recommended" in names(board, recommended=board.rows[1].key)
    text = printed(leaderboard_table(board, recommended=board.rows[1].key))
    (marked,) = [line for line in text.splitlines() if line.startswith("*  ")]
    assert str(board.rows[1].configuration) in marked


def test_ranking_on_test_has_a_warning():
    assert "optimistic" in printed(leaderboard_table(make_board(Split.TEST)))
    assert "optimistic" not in printed(leaderboard_table(make_board()))


def test_the_legend_names_seeds_and_the_split_that_ranks():
    text = printed(leaderboard_table(make_board()))
    assert "± standard deviation over 2 seeds; ▲ ranks the rows" in text
    assert "seeds" not in names(make_board())


def test_a_narrow_terminal_drops_the_metrics_of_the_other_split_first():
    board = make_board()
    assert "validation accuracy" in omitted_order(board)[-1]
    assert "test accuracy" in omitted_order(make_board(Split.TEST))[-1]


def omitted_order(board):
    """Metrics that rank no rows, by the order in which they are dropped."""
    metrics = [
        column for column in leaderboard_table(board).columns if " loss" in column.name or "accuracy" in column.name
    ]
    droppable = [column for column in metrics if column.drop_order is not None]
    return [column.name for column in sorted(droppable, key=lambda column: column.drop_order)]


@pytest.mark.parametrize(("looks", "is_named"), [(0, False), (1, True), (2, True)])
def test_every_table_with_verdicts_names_the_error_rate_of_a_later_look(looks, is_named):
    comparison = compared("FFFF", "TTFF").model_copy(update={"level": level_of_look(looks)})
    analysis, board = Analysis(comparison=comparison), make_board()
    rows = {row.key: row for row in comparison.rows}
    tables = [
        printed(leaderboard_table(board, compared=rows, level=comparison.level), 400),
        printed(row_comparison_table(comparison), 400),
        leaderboard_markdown(board, analysis),
        leaderboard_latex(board, "", analysis).replace("\\%", "%"),
    ]
    assert [f"{100 * comparison.level:.2g} %" in text for text in tables] == [is_named] * 4
