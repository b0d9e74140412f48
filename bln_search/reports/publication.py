"""The leaderboard for a paper or a page: LaTeX (booktabs) and Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.core.configuration import Statistic
from bln_search.core.enums import Split
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow, Summary

_FIGURES = tuple((split, metric) for split in (Split.VALIDATION, Split.TEST) for metric in ("loss", "accuracy"))
_LATEX_NOTES = (r"needs \usepackage{booktabs}", "mean and, behind the plus-minus, standard deviation over seeds")
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{one: f"\\{one}" for one in "&%$#_{}"},
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
_KNOWN = frozenset("λη×→ÄÖÜäöüßàâçèéêëîïôùûñ")


def leaderboard_latex(board: Leaderboard, about: str = "") -> str:
    r"""A tabular with the four switches in columns of their own, as Table 1 of the BLN paper has them.

    It needs \usepackage{booktabs}. Figures are means, with the standard deviation over seeds behind a plus-minus.
    about: a comment above it.
    """
    named = _named(board.rows)
    columns = "r" + "l" * len(named) + "cccc" + "lr" + "r" * len(_FIGURES)
    switches = " & ".join(f"$\\mathrm{{{one.split('_')[0]}}}_{one.split('_')[1]}$" for one in Statistic)
    head = ["Rank", *(label for label, _ in named), switches, "Population", "Batch"]
    head += [
        f"{split.value.capitalize()} {metric}" + (r" (\%)" if metric == "accuracy" else "")
        for split, metric in _FIGURES
    ]
    lines = [f"\\begin{{tabular}}{{{columns}}}", r"\toprule", " & ".join(head) + r" \\", r"\midrule"]
    for row in board.rows:
        cells = [str(row.rank) if row.rank else "--"]
        cells += [_tex(value) for value in _names(row, named)]
        cells += [row.configuration.source(statistic).value for statistic in Statistic]
        cells += [row.estimate or "--", str(row.batch_size)]
        cells += [_figure(row, split, metric, " $\\pm$ ", "--") for split, metric in _FIGURES]
        lines.append(" & ".join(cells) + r" \\")
    notes = [f"% {_one_line(about)}"] if about else []
    notes += [f"% {line}" for line in (board.warning, *_LATEX_NOTES) if line]
    return "\n".join([*notes, *lines, r"\bottomrule", r"\end{tabular}", ""])


def leaderboard_markdown(board: Leaderboard) -> str:
    """A table as GitHub and most editors draw it."""
    named = _named(board.rows)
    head = ["rank", *(label for label, _ in named), *Statistic, "population", "batch"]
    head += [f"{split} {metric}" + (" %" if metric == "accuracy" else "") for split, metric in _FIGURES]
    lines = [_line(head), _line(["---"] * len(head))]
    for row in board.rows:
        cells = [str(row.rank) if row.rank else "–"]
        cells += [_one_line(value).replace("|", r"\|") for value in _names(row, named)]
        cells += [row.configuration.source(statistic).value for statistic in Statistic]
        cells += [row.estimate or "–", str(row.batch_size)]
        cells += [_figure(row, split, metric, " ± ", "–") for split, metric in _FIGURES]
        lines.append(_line(cells))
    notes = ["± is the standard deviation over seeds.", *([f"{board.warning}."] if board.warning else [])]
    return "\n".join([*lines, "", *notes, ""])


def _named(rows: Sequence[LeaderboardRow]) -> list[tuple[str, str]]:
    """Columns that only some tables need: heading and attribute."""
    wanted = [("Arm", "arm")] if len({row.arm for row in rows}) > 1 else []
    return wanted + ([("Parameters", "parameters")] if any(row.point for row in rows) else [])


def _names(row: LeaderboardRow, named: Sequence[tuple[str, str]]) -> list[str]:
    return [str(getattr(row, attribute)) for _, attribute in named]


def _figure(row: LeaderboardRow, split: Split, metric: str, between: str, nothing: str) -> str:
    figures = row.figures.get(split)
    if figures is None:
        return nothing
    summary: Summary = getattr(figures, metric)
    factor, digits = (100, 2) if metric == "accuracy" else (1, 4)
    mean = f"{summary.mean * factor:.{digits}f}"
    return mean if summary.deviation is None else f"{mean}{between}{summary.deviation * factor:.{digits}f}"


def _tex(text: str) -> str:
    """As text of LaTeX; letters that pdflatex has no sign for by their number."""
    return "".join(_letter(one).translate(_LATEX) for one in _one_line(text))


def _letter(one: str) -> str:
    return one if one.isascii() or one in _KNOWN else f"U+{ord(one):04X}"


def _one_line(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
