"""The leaderboard for publications: LaTeX (booktabs) and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.reports.formatting import level_of_comparison, verdict_confidence_text
from bln_search.reports.leaderboard_columns import BatchSizes, Form, LeaderboardView
from bln_search.reports.leaderboard_table import build_table_columns, metric_columns_with_deviations
from bln_search.reports.metric_columns import capitalize, list_metric_columns
from bln_search.reports.sentences.leaderboard import find_test_ranking_warning
from bln_search.reports.tables.columns import CellKind, Column

_LATEX_NOTES = (r"needs \usepackage{booktabs}", "mean ± standard deviation over seeds")
_LATEX_ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "–": "--",
        "±": r"$\pm$",
        "λ": r"$\lambda$",
        "η": r"$\eta$",
        "×": r"$\times$",
        "→": r"$\rightarrow$",
    }
)
_PDFLATEX_LETTERS = frozenset("²λη×→–±ÄÖÜäöüßàâçèéêëîïôùûñ")
_LATEX_ALIGNMENTS = {CellKind.NUMBER: "r", CellKind.SWITCH: "c"}


def leaderboard_latex(
    board: Leaderboard, comment: str = "", analysis: Analysis | None = None, sizes: BatchSizes | None = None
) -> str:
    r"""A tabular with one column for each of the four switches, as in Table 1 of the BLN paper.

    It needs \usepackage{booktabs}. Values are means ± standard deviations over seeds.

    Args:
        board: The leaderboard.
        comment: Comment above the tabular.
        analysis: Of the study: gives the verdicts and the recommended row, which has an asterisk at its rank.
        sizes: Mini-batch sizes of the rows that stand for several.
    """
    columns, footnotes = _columns_and_footnotes(board, analysis, sizes, "*", capitalized=True)
    alignments = "".join(_LATEX_ALIGNMENTS.get(column.kind, "l") for column in columns)
    header = [_latex_heading(column) for column in columns]
    lines = [f"\\begin{{tabular}}{{{alignments}}}", r"\toprule", " & ".join(header) + r" \\", r"\midrule"]
    for cells in _rows_of_cells(columns):
        rank, *others = map(escape_latex, cells)
        lines.append(" & ".join([rank.replace("*", "$^{*}$"), *others]) + r" \\")
    notes = [f"% {_replace_unprintable_by_spaces(comment)}"] if comment else []
    notes += [f"% {line}" for line in (find_test_ranking_warning(board), *_LATEX_NOTES, *footnotes) if line]
    return "\n".join([*notes, *lines, r"\bottomrule", r"\end{tabular}", ""])


def leaderboard_markdown(board: Leaderboard, analysis: Analysis | None = None, sizes: BatchSizes | None = None) -> str:
    """A table in GitHub Flavored Markdown; for `analysis` and `sizes` see `leaderboard_latex`."""
    columns, footnotes = _columns_and_footnotes(board, analysis, sizes, r"\*", capitalized=False)
    headings = [capitalize(column.name) if column.name in ("arm", "parameters") else column.name for column in columns]
    lines = [markdown_table_line(headings), markdown_table_line(["---"] * len(columns))]
    lines += [markdown_table_line(list(map(escape_markdown, cells))) for cells in _rows_of_cells(columns)]
    warning = find_test_ranking_warning(board)
    notes = ["± is the standard deviation over seeds.", *([f"{warning}."] if warning else [])]
    return "\n".join([*lines, "", *notes, *footnotes, ""])


def _columns_and_footnotes(
    board: Leaderboard, analysis: Analysis | None, sizes: BatchSizes | None, mark: str, *, capitalized: bool
) -> tuple[list[Column], list[str]]:
    """The columns, with a mark at the rank of the recommended row, and what mark and verdicts mean."""
    view = LeaderboardView.of_analysis(board, analysis, sizes)
    rows = [view.view_row(row) for row in board.rows]
    metrics = metric_columns_with_deviations(board.rows, list_metric_columns(board), capitalized=capitalized)
    rank, *others = build_table_columns(rows, Form.PUBLICATION, metrics, capitalized=capitalized)
    ranks = [
        f"{cell}{mark}" if viewed.is_recommended and viewed.row.rank else str(cell)
        for cell, viewed in zip(rank.cells, rows, strict=True)
    ]
    footnotes = [f"{mark} is the recommended row."] if any(viewed.is_recommended for viewed in rows) else []
    confidence = verdict_confidence_text(level_of_comparison(analysis))
    footnotes += [f"Verdict: each row beside the best one ({confidence})."] if view.compared else []
    return [replace(rank, cells=ranks), *others], footnotes


def _rows_of_cells(columns: Sequence[Column]) -> list[tuple[str, ...]]:
    return list(zip(*(map(str, column.cells) for column in columns), strict=True))


def _latex_heading(column: Column) -> str:
    r"""`E_B` as `$\mathrm{E}_B$`, and a unit in brackets."""
    if column.kind is CellKind.SWITCH:
        statistic, _, over = column.name.partition("_")
        return f"$\\mathrm{{{statistic}}}_{over}$"
    name, percent, _ = column.name.partition(" %")
    return escape_latex(name) + (r" (\%)" if percent else "")


def escape_latex(text: str) -> str:
    """Text escaped for LaTeX; characters that pdflatex lacks by their code point."""
    return "".join(
        _escape_unsupported_letter(sign).translate(_LATEX_ESCAPES) for sign in _replace_unprintable_by_spaces(text)
    )


def _escape_unsupported_letter(sign: str) -> str:
    return sign if sign.isascii() or sign in _PDFLATEX_LETTERS else f"U+{ord(sign):04X}"


def _replace_unprintable_by_spaces(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)


def escape_markdown(text: str) -> str:
    """Text for a cell of a table in GitHub Flavored Markdown."""
    return _replace_unprintable_by_spaces(text).replace("|", r"\|")


def markdown_table_line(cells: Sequence[str]) -> str:
    """A line of a table in GitHub Flavored Markdown."""
    return f"| {' | '.join(cells)} |"
