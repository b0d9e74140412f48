"""The leaderboard as LaTeX and Markdown."""

from __future__ import annotations

import re

from bln_search.reports.publication import leaderboard_latex, leaderboard_markdown
from tests.reports.test_reports import board as make_board


def cells(line):
    return line.count("&") + 1


def test_every_line_of_the_tabular_has_as_many_cells_as_columns():
    text = leaderboard_latex(make_board())
    columns = len(re.search(r"\\begin\{tabular\}\{([a-z]+)\}", text)[1])
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(lines) == len(make_board().rows) + 1
    assert {cells(line) for line in lines} == {columns}
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 1


def test_names_with_signs_of_latex_are_written_out():
    from bln_search.reports.publication import _tex

    assert _tex(r"a_b & 50% $x^2~{y}#\z <|>") == (
        r"a\_b \& 50\% \$x\textasciicircum{}2\textasciitilde{}\{y\}\#\textbackslash{}z "
        r"\textless{}\textbar{}\textgreater{}"
    )


def test_every_line_of_the_markdown_table_has_the_same_cells():
    text = leaderboard_markdown(make_board())
    assert text.endswith("\n\n± is the standard deviation over seeds.\n")
    lines = text.split("\n\n")[0].splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert lines[0].startswith("| rank |")
