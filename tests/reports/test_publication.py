"""The leaderboard as LaTeX and Markdown."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import Leaderboard, build_leaderboard_from_evaluations
from bln_search.ranking.row_results import TrialEvaluation
from bln_search.ranking.selection.recommendation import recommend_row
from bln_search.reports.publication import leaderboard_latex, leaderboard_markdown
from tests.ranking.comparisons import compared
from tests.reports.leaderboards import make_board


def cells(line):
    return line.count("&") + 1


def test_every_line_of_the_tabular_has_as_many_cells_as_columns():
    text = leaderboard_latex(make_board())
    columns = len(re.search(r"\\begin\{tabular\}\{([a-z]+)\}", text)[1])
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(lines) == len(make_board().rows) + 1
    assert {cells(line) for line in lines} == {columns}
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 1


def test_every_line_of_the_markdown_table_has_the_same_cells():
    text = leaderboard_markdown(make_board())
    assert text.endswith("\n\n± is the standard deviation over seeds.\n")
    lines = text.split("\n\n")[0].splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert lines[0].startswith("| rank |")


SPECIAL = "a_b & 50% $x^2~{y}#\\z <|> λ=0.5 é ß \u6e2c \u202e \"'`["


def wild_board():
    """Several arms and batch sizes, points with every sign there is, rows without a value."""
    scored = []
    for arm in ("bln", "bn_1-x"):
        for size in (1, 25):
            key = EvaluationKey(InferenceConfiguration("TTFF"), PopulationEstimate.FROZEN, size, Split.VALIDATION)
            if size == 1:
                evaluation = Evaluation.make_undefined(key, "m/(m-1) has no value for m = 1")
            else:
                evaluation = Evaluation(key, EvaluationState.MEASURED, 10, 0.5, 0.5)
            scored.append(TrialEvaluation(arm, 0, evaluation, f'{{"training.note": {_json(SPECIAL)}}}'))
    return build_leaderboard_from_evaluations(scored)


def _json(text):
    import json

    return json.dumps(text)


def test_headings_of_arm_and_parameters_begin_with_a_capital_in_markdown():
    assert leaderboard_markdown(wild_board()).startswith("| rank | Arm | Parameters | E_B |")


DOCUMENT = r"""\documentclass{article}
\usepackage{booktabs}
\begin{document}
%s\end{document}
"""


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not here")
@pytest.mark.parametrize("board", [make_board(), wild_board(), Leaderboard(Split.TEST, ())])
def test_pdflatex_compiles_the_table(board, tmp_path):
    text = leaderboard_latex(board, f"a study\r\n\\undefined \u2028 {SPECIAL}")
    (tmp_path / "table.tex").write_text(DOCUMENT % text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "table.tex"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
    assert process.returncode == 0, process.stdout.decode(errors="replace")[-2000:]
    assert (tmp_path / "table.pdf").stat().st_size > 1000


def test_characters_unknown_to_latex_are_code_points():
    text = leaderboard_latex(wild_board())
    assert "U+6E2C" in text
    assert r"$\lambda$=0.5 é ß" in text
    assert text.isprintable() is False
    assert all(line.isprintable() for line in text.splitlines())


@pytest.fixture
def analysis():
    """`FFFF` and `TTFF` compared; the second row, which is deterministic, is recommended."""
    comparison = compared("FFFF", "TTFF", step=0.001)
    return Analysis(comparison=comparison, recommendation=recommend_row(comparison, {}))


def test_verdicts_are_a_column_of_compared_rows(analysis):
    assert "verdict" not in leaderboard_markdown(make_board()).lower()
    lines = leaderboard_markdown(make_board(), analysis).splitlines()
    assert [line.split("|")[2].strip() for line in lines[:5] if "---" not in line] == [
        "verdict",
        "best",
        "cannot tell",
        "",
    ]
    tabular = [line for line in leaderboard_latex(make_board(), "", analysis).splitlines() if line.endswith(r"\\")]
    without = [line for line in leaderboard_latex(make_board()).splitlines() if line.endswith(r"\\")]
    assert [cells(line) for line in tabular] == [cells(line) + 1 for line in without]
    assert [line.split(" & ")[1] for line in tabular] == ["Verdict", "best", "cannot tell", ""]


def test_table_ranked_on_test_has_a_warning():
    assert "optimistic" in leaderboard_latex(make_board(Split.TEST))
    assert "optimistic" not in leaderboard_latex(make_board())
    assert "optimistic" in leaderboard_markdown(make_board(Split.TEST))
    assert "optimistic" not in leaderboard_markdown(make_board())


def test_name_with_line_breaks_stays_in_one_row():
    scored = [TrialEvaluation("bln", 0, _measured(), '{"training.note": "one\\ntwo | three"}')]
    rows = [
        line
        for line in leaderboard_markdown(build_leaderboard_from_evaluations(scored)).splitlines()
        if line.startswith("| 1 ")
    ]
    assert rows[0].split(" | ")[1] == r"note=one two \| three"


def _measured():
    key = EvaluationKey(InferenceConfiguration("TTFF"), PopulationEstimate.FROZEN, 25, Split.VALIDATION)
    return Evaluation(key, EvaluationState.MEASURED, 10, 0.5, 0.5)
