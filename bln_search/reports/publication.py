"""The leaderboard for publications: LaTeX (booktabs) and Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.core.method import Statistic
from bln_search.core.records import RowKey
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.reports.formatting import compared_rows_by_key
from bln_search.reports.leaderboard_columns import (
    BatchSizes,
    MetricColumn,
    format_mean_and_deviation,
    list_metric_columns,
    list_optional_headings_and_attributes,
)
from bln_search.reports.sentences.leaderboard import find_test_ranking_warning

_LATEX_NOTES = (r"needs \usepackage{booktabs}", "mean ± standard deviation over seeds")
_VERDICT_NOTE = "Verdict: each row beside the best one (95 %, corrected for all rows)."
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
_PDFLATEX_LETTERS = frozenset("²λη×→ÄÖÜäöüßàâçèéêëîïôùûñ")


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
    identity = list_optional_headings_and_attributes(board.rows)
    metrics = list_metric_columns(board)
    marks = _RowAnnotations(analysis, sizes or {})
    verdicts = marks.verdicts_of_rows(board)
    columns = "r" + "l" * len(identity) + "cccc" + "lr" + "r" * len(metrics) + "l" * bool(verdicts)
    switches = " & ".join(f"$\\mathrm{{{name.split('_')[0]}}}_{name.split('_')[1]}$" for name in Statistic)
    header = ["Rank", *(label for label, _ in identity), switches, "Population", "Batch"]
    header += [
        escape_latex(column.capitalized_name) + (r" (\%)" if column.metric == "accuracy" else "") for column in metrics
    ]
    header += ["Verdict"] * bool(verdicts)
    lines = [f"\\begin{{tabular}}{{{columns}}}", r"\toprule", " & ".join(header) + r" \\", r"\midrule"]
    for position, row in enumerate(board.rows):
        cells = [str(row.rank) + "$^{*}$" * marks.is_recommended(row) if row.rank else "--"]
        cells += [escape_latex(value) for value in _identity_values(row, identity)]
        cells += [row.configuration.source_of(statistic).value for statistic in Statistic]
        cells += [row.estimate or "--", marks.batch_sizes_cell(row)]
        cells += [_format_metric_cell(row, column, " $\\pm$ ", "--") for column in metrics]
        cells += [verdicts[position]] if verdicts else []
        lines.append(" & ".join(cells) + r" \\")
    notes = [f"% {_replace_unprintable_by_spaces(comment)}"] if comment else []
    notes += [f"% {line}" for line in (find_test_ranking_warning(board), *_LATEX_NOTES) if line]
    notes += [f"% {line}" for line in marks.footnotes(board, "*")]
    return "\n".join([*notes, *lines, r"\bottomrule", r"\end{tabular}", ""])


def leaderboard_markdown(board: Leaderboard, analysis: Analysis | None = None, sizes: BatchSizes | None = None) -> str:
    """A table in GitHub Flavored Markdown; for `analysis` and `sizes` see `leaderboard_latex`."""
    identity = list_optional_headings_and_attributes(board.rows)
    marks = _RowAnnotations(analysis, sizes or {})
    verdicts = marks.verdicts_of_rows(board)
    header = ["rank", *(label for label, _ in identity), *Statistic, "population", "batch"]
    metrics = list_metric_columns(board)
    header += [*(column.heading for column in metrics), *(["verdict"] * bool(verdicts))]
    lines = [markdown_table_line(header), markdown_table_line(["---"] * len(header))]
    for position, row in enumerate(board.rows):
        cells = [str(row.rank) + r"\*" * marks.is_recommended(row) if row.rank else "–"]
        cells += map(escape_markdown, _identity_values(row, identity))
        cells += [row.configuration.source_of(statistic).value for statistic in Statistic]
        cells += [row.estimate or "–", marks.batch_sizes_cell(row)]
        cells += [_format_metric_cell(row, column, " ± ", "–") for column in metrics]
        cells += [verdicts[position]] if verdicts else []
        lines.append(markdown_table_line(cells))
    warning = find_test_ranking_warning(board)
    notes = ["± is the standard deviation over seeds.", *([f"{warning}."] if warning else [])]
    return "\n".join([*lines, "", *notes, *marks.footnotes(board, r"\*"), ""])


class _RowAnnotations:
    """What a table says about each row beside its figures: mini-batch sizes, verdict, recommendation.

    Args:
        analysis: Analysis of the study; None without one.
        sizes: Mini-batch sizes of the rows that stand for several.
    """

    def __init__(self, analysis: Analysis | None, sizes: BatchSizes) -> None:
        self._compared = compared_rows_by_key(analysis)
        recommendation = None if analysis is None else analysis.recommendation
        self._recommended = None if recommendation is None else recommendation.key
        self._sizes = sizes

    def _keys_of_equal_rows(self, row: LeaderboardRow) -> list[RowKey]:
        """Keys of the rows that a row stands for."""
        return [row.key.with_batch_size(size) for size in self._sizes.get(row.key, (row.batch_size,))]

    def batch_sizes_cell(self, row: LeaderboardRow) -> str:
        return ", ".join(str(key.batch_size) for key in self._keys_of_equal_rows(row))

    def is_recommended(self, row: LeaderboardRow) -> bool:
        return self._recommended in self._keys_of_equal_rows(row)

    def verdicts_of_rows(self, board: Leaderboard) -> list[str]:
        """What is known about each row beside the best one; empty without a comparison."""
        return [self._verdict_of_row(row) for row in board.rows] if self._compared else []

    def _verdict_of_row(self, row: LeaderboardRow) -> str:
        compared = (self._compared.get(key) for key in self._keys_of_equal_rows(row))
        return next((str(row.verdict) for row in compared if row is not None), "")

    def footnotes(self, board: Leaderboard, mark: str) -> list[str]:
        marked = [f"{mark} is the recommended row."] if any(map(self.is_recommended, board.rows)) else []
        return marked + ([_VERDICT_NOTE] if self.verdicts_of_rows(board) else [])


def _identity_values(row: LeaderboardRow, identity: Sequence[tuple[str, str]]) -> list[str]:
    return [str(getattr(row, attribute)) for _, attribute in identity]


def _format_metric_cell(row: LeaderboardRow, column: MetricColumn, plus_minus: str, missing: str) -> str:
    value = column.value_of_row(row)
    return missing if value is None else format_mean_and_deviation(value, column.metric, plus_minus)


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
