"""The leaderboard for publications: LaTeX (booktabs) and Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.core.configuration import Statistic
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.reports.leaderboard_columns import (
    MetricColumn,
    format_mean_and_deviation,
    identity_columns,
    metric_columns,
)
from bln_search.reports.sentences.leaderboard import leaderboard_warning

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
        "λ": r"$\lambda$",
        "η": r"$\eta$",
        "×": r"$\times$",
        "→": r"$\rightarrow$",
    }
)
_PDFLATEX_LETTERS = frozenset("λη×→ÄÖÜäöüßàâçèéêëîïôùûñ")


def leaderboard_latex(board: Leaderboard, comment: str = "") -> str:
    r"""A tabular with one column for each of the four switches, as in Table 1 of the BLN paper.

    It needs \usepackage{booktabs}. Values are means ± standard deviations over seeds.

    Args:
        board: The leaderboard.
        comment: Comment above the tabular.
    """
    identity = identity_columns(board.rows)
    metrics = metric_columns(board)
    columns = "r" + "l" * len(identity) + "cccc" + "lr" + "r" * len(metrics)
    switches = " & ".join(f"$\\mathrm{{{name.split('_')[0]}}}_{name.split('_')[1]}$" for name in Statistic)
    header = ["Rank", *(label for label, _ in identity), switches, "Population", "Batch"]
    header += [
        _escape_latex(column.capitalized_name) + (r" (\%)" if column.metric == "accuracy" else "") for column in metrics
    ]
    lines = [f"\\begin{{tabular}}{{{columns}}}", r"\toprule", " & ".join(header) + r" \\", r"\midrule"]
    for row in board.rows:
        cells = [str(row.rank) if row.rank else "--"]
        cells += [_escape_latex(value) for value in _identity_values(row, identity)]
        cells += [row.configuration.source(statistic).value for statistic in Statistic]
        cells += [row.estimate or "--", str(row.batch_size)]
        cells += [_metric_cell(row, column, " $\\pm$ ", "--") for column in metrics]
        lines.append(" & ".join(cells) + r" \\")
    notes = [f"% {_one_line(comment)}"] if comment else []
    notes += [f"% {line}" for line in (leaderboard_warning(board), *_LATEX_NOTES) if line]
    return "\n".join([*notes, *lines, r"\bottomrule", r"\end{tabular}", ""])


def leaderboard_markdown(board: Leaderboard) -> str:
    """A table in GitHub Flavored Markdown."""
    identity = identity_columns(board.rows)
    header = ["rank", *(label for label, _ in identity), *Statistic, "population", "batch"]
    metrics = metric_columns(board)
    header += [column.heading for column in metrics]
    lines = [_markdown_line(header), _markdown_line(["---"] * len(header))]
    for row in board.rows:
        cells = [str(row.rank) if row.rank else "–"]
        cells += [_one_line(value).replace("|", r"\|") for value in _identity_values(row, identity)]
        cells += [row.configuration.source(statistic).value for statistic in Statistic]
        cells += [row.estimate or "–", str(row.batch_size)]
        cells += [_metric_cell(row, column, " ± ", "–") for column in metrics]
        lines.append(_markdown_line(cells))
    warning = leaderboard_warning(board)
    notes = ["± is the standard deviation over seeds.", *([f"{warning}."] if warning else [])]
    return "\n".join([*lines, "", *notes, ""])


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
