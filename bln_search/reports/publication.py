"""The leaderboard for publications: LaTeX (booktabs) and Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.core.configuration import Statistic
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.reports.formatting import compared_rows_by_key
from bln_search.reports.leaderboard_columns import (
    MetricColumn,
    format_mean_and_deviation,
    identity_columns,
    metric_columns,
)
from bln_search.reports.sentences.leaderboard import leaderboard_warning

_LATEX_NOTES = (r"needs \usepackage{booktabs}", "mean ± standard deviation over seeds")
_GROUP_NOTE = "Rows that share a letter of their group are not significantly different (5 %, Holm)."
_LATEX_ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "λ": r"$\lambda$",
        "η": r"$\eta$",
        "×": r"$\times$",
        "→": r"$\rightarrow$",
    }
)
_PDFLATEX_LETTERS = frozenset("λη×→ÄÖÜäöüßàâçèéêëîïôùûñ")


def leaderboard_latex(board: Leaderboard, comment: str = "", analysis: Analysis | None = None) -> str:
    r"""A tabular with one column for each of the four switches, as in Table 1 of the BLN paper.

    It needs \usepackage{booktabs}. Values are means ± standard deviations over seeds.

    Args:
        board: The leaderboard.
        comment: Comment above the tabular.
        analysis: Of the study: gives the groups and the recommended row, which has an asterisk at its rank.
    """
    identity = identity_columns(board.rows)
    metrics = metric_columns(board)
    groups = _group_letters(board, analysis)
    columns = "r" + "l" * len(identity) + "cccc" + "lr" + "r" * len(metrics) + "l" * bool(groups)
    switches = " & ".join(f"$\\mathrm{{{name.split('_')[0]}}}_{name.split('_')[1]}$" for name in Statistic)
    header = ["Rank", *(label for label, _ in identity), switches, "Population", "Batch"]
    header += [
        _escape_latex(column.capitalized_name) + (r" (\%)" if column.metric == "accuracy" else "") for column in metrics
    ]
    header += ["Group"] * bool(groups)
    lines = [f"\\begin{{tabular}}{{{columns}}}", r"\toprule", " & ".join(header) + r" \\", r"\midrule"]
    for position, row in enumerate(board.rows):
        cells = [str(row.rank) + "$^{*}$" * _is_recommended(row, analysis) if row.rank else "--"]
        cells += [_escape_latex(value) for value in _identity_values(row, identity)]
        cells += [row.configuration.source(statistic).value for statistic in Statistic]
        cells += [row.estimate or "--", str(row.batch_size)]
        cells += [_metric_cell(row, column, " $\\pm$ ", "--") for column in metrics]
        cells += [groups[position]] if groups else []
        lines.append(" & ".join(cells) + r" \\")
    notes = [f"% {_one_line(comment)}"] if comment else []
    notes += [f"% {line}" for line in (leaderboard_warning(board), *_LATEX_NOTES) if line]
    notes += [f"% {line}" for line in _analysis_notes(board, analysis, "*")]
    return "\n".join([*notes, *lines, r"\bottomrule", r"\end{tabular}", ""])


def leaderboard_markdown(board: Leaderboard, analysis: Analysis | None = None) -> str:
    """A table in GitHub Flavored Markdown; for `analysis` see `leaderboard_latex`."""
    identity = identity_columns(board.rows)
    groups = _group_letters(board, analysis)
    header = ["rank", *(label for label, _ in identity), *Statistic, "population", "batch"]
    metrics = metric_columns(board)
    header += [*(column.heading for column in metrics), *(["group"] * bool(groups))]
    lines = [_markdown_line(header), _markdown_line(["---"] * len(header))]
    for position, row in enumerate(board.rows):
        cells = [str(row.rank) + r"\*" * _is_recommended(row, analysis) if row.rank else "–"]
        cells += [_one_line(value).replace("|", r"\|") for value in _identity_values(row, identity)]
        cells += [row.configuration.source(statistic).value for statistic in Statistic]
        cells += [row.estimate or "–", str(row.batch_size)]
        cells += [_metric_cell(row, column, " ± ", "–") for column in metrics]
        cells += [groups[position]] if groups else []
        lines.append(_markdown_line(cells))
    warning = leaderboard_warning(board)
    notes = ["± is the standard deviation over seeds.", *([f"{warning}."] if warning else [])]
    return "\n".join([*lines, "", *notes, *_analysis_notes(board, analysis, r"\*"), ""])


def _group_letters(board: Leaderboard, analysis: Analysis | None) -> list[str]:
    """The letters of every row; empty without a comparison, and where all rows are in one group."""
    compared = compared_rows_by_key(analysis)
    letters = [(row.letters or "") if (row := compared.get(ranked.key)) else "" for ranked in board.rows]
    return letters if len({letter for letter in letters if letter}) > 1 else []


def _is_recommended(row: LeaderboardRow, analysis: Analysis | None) -> bool:
    return analysis is not None and analysis.recommendation is not None and analysis.recommendation.key == row.key


def _analysis_notes(board: Leaderboard, analysis: Analysis | None, mark: str) -> list[str]:
    marked = [f"{mark} is the recommended row."] if any(_is_recommended(row, analysis) for row in board.rows) else []
    return marked + ([_GROUP_NOTE] if _group_letters(board, analysis) else [])


def _identity_values(row: LeaderboardRow, identity: Sequence[tuple[str, str]]) -> list[str]:
    return [str(getattr(row, attribute)) for _, attribute in identity]


def _metric_cell(row: LeaderboardRow, column: MetricColumn, plus_minus: str, missing: str) -> str:
    value = column.value(row)
    return missing if value is None else format_mean_and_deviation(value, column.metric, plus_minus)


def _escape_latex(text: str) -> str:
    """Text escaped for LaTeX; characters that pdflatex lacks by their code point."""
    return "".join(_latex_letter(sign).translate(_LATEX_ESCAPES) for sign in _one_line(text))


def _latex_letter(sign: str) -> str:
    return sign if sign.isascii() or sign in _PDFLATEX_LETTERS else f"U+{ord(sign):04X}"


def _one_line(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
