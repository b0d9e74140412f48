"""The rows of a table of scores beside the best one, as a table, a text, a LaTeX tabular and a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bln_search.api.ranked.charted_table import ChartedTable
from bln_search.api.ranked.result_table import Record
from bln_search.ranking.comparison import RequiredData, RowVerdict, Verdict
from bln_search.ranking.statistics.intervals import ALPHA
from bln_search.reports.charts.chart import Chart
from bln_search.reports.charts.comparison import differences_chart
from bln_search.reports.charts.drawn_rows import IN_USE, RECOMMENDED
from bln_search.reports.formatting import format_signed
from bln_search.reports.leaderboard_table import recommended_mark_column, verdict_column
from bln_search.reports.publication import escape_latex, escape_markdown, markdown_table_line
from bln_search.reports.sentences.leaderboard import format_sentence
from bln_search.reports.sentences.significance import (
    choice_text,
    deciding_data_text,
    format_margin,
    verdict_counts_text,
)
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable

_HEADINGS = "row", "mean", "difference to the best (95 %)", "p (corrected)", "P(best)", "verdict"
_NOTES = (
    "difference: mean minus that of the best row, with the 95 % confidence interval of this pair alone",
    "p: of that difference, corrected for all pairs of rows",
    "P(best): probability that the row has the best mean",
)
_SAME_DIFFERENCE = 1e-9
"""Relative width of an interval up to which all differences are equal but for rounding."""

_MAX_LEFT_OUT = 3
"""Number of rows that were left out, and are named under the table."""

_DROP_P_BEST, _DROP_MEAN, _DROP_P, _DROP_VERDICT = range(1, 5)


@dataclass(frozen=True)
class ComparedScore:
    """A row of a table of scores beside the best row.

    Attributes:
        name: Name of the row.
        mean: Mean score.
        verdict: What is known about the row beside the best one (95 %, corrected for all rows).
        difference: Its mean score minus that of the best row.
        low: Lower end of the 95 % confidence interval of `difference`.
        high: Upper end of that interval.
        p: p value of `difference`, corrected for all pairs of rows; 1 for the best row.
        probability_best: Probability that the row has the best mean score.
    """

    name: str
    mean: float
    verdict: RowVerdict
    difference: float
    low: float
    high: float
    p: float
    probability_best: float


@dataclass(frozen=True, repr=False)
class ComparedScores(ChartedTable):
    """Rows of a table of scores, from best to worst; printing it prints the table, a notebook shows it.

    Attributes:
        rows: The rows, the best one first.
        recommended: The row in use if its expected score is near enough to the best one or a change may do harm,
            otherwise the best row.
        verdict: What is known about the choice of the recommended row (95 %).
        lower_is_better: Whether lower scores are better.
        practical: Difference of mean scores up to which rows are practically equal.
        seeds: Number of seeds.
        examples: Number of examples; 1 where a seed has one score.
        optimism: Selection bias: expected amount by which the mean score of the best row is too good.
        required: About how much data would decide; None where it is decided.
        left_out: Why each row that was not compared was left out, by its name.
        level: Significance level of the verdicts: below 5 % where earlier looks at the scores spent a part of it.
    """

    rows: tuple[ComparedScore, ...]
    recommended: ComparedScore
    verdict: Verdict
    lower_is_better: bool
    practical: float
    seeds: int
    examples: int
    optimism: float
    required: RequiredData | None
    left_out: Mapping[str, str] = field(default_factory=dict)
    level: float = ALPHA

    @property
    def best(self) -> ComparedScore:
        """The row with the best mean score."""
        return self.rows[0]

    def to_records(self) -> list[Record]:
        """The table as one dictionary for each row."""
        return [
            {
                "row": row.name,
                "recommended": row == self.recommended,
                "verdict": row.verdict.value,
                "mean": row.mean,
                "difference": row.difference,
                "low": row.low,
                "high": row.high,
                "p": row.p,
                "probability_best": row.probability_best,
            }
            for row in self.rows
        ]

    def markdown(self) -> str:
        """The table in GitHub Flavored Markdown."""
        lines = [markdown_table_line(_HEADINGS), markdown_table_line(["---"] * len(_HEADINGS))]
        for row, cells in zip(self.rows, self._cells("–"), strict=True):
            mark = r"\*" if row == self.recommended else ""
            lines.append(markdown_table_line([escape_markdown(row.name) + mark, *cells, row.verdict]))
        return "\n".join([*lines, "", rf"\* recommended; {'; '.join(map(escape_markdown, self._notes))}.", ""])

    def latex(self) -> str:
        r"""The table as a LaTeX tabular, which needs \usepackage{booktabs}."""
        notes = (r"needs \usepackage{booktabs}", "* recommended", *self._notes)
        header = " & ".join(escape_latex(heading) for heading in _HEADINGS)
        lines = [r"\begin{tabular}{lrrrrl}", r"\toprule", rf"{header} \\", r"\midrule"]
        for row, cells in zip(self.rows, self._cells(""), strict=True):
            numbers = [f"${cell}$".replace("%", r"\%").replace(" [", r"\ [") if cell else "--" for cell in cells]
            mark = "$^{*}$" if row == self.recommended else ""
            lines.append(rf"{' & '.join([escape_latex(row.name) + mark, *numbers, row.verdict])} \\")
        return "\n".join([*(f"% {note}" for note in notes), *lines, r"\bottomrule", r"\end{tabular}", ""])

    def plot(self) -> Any:
        """Differences to the best row with 95 % intervals and the margin, as a `plotly.graph_objects.Figure`.

        A ring marks the recommended row; open marks are significantly worse. In the shaded region rows are practically
        equal to the best one. Differences far beyond the others are marked at the end of the axis.
        """
        return super().plot()

    def _make_chart(self) -> Chart:
        hover_texts = [f", {row.verdict}" for row in self.rows]
        axis = f"mean score minus that of the best row<br>({self._direction})"
        rows = [
            {name: record[name] for name in ("row", "verdict", "difference", "low", "high", "p")}
            for record in self.to_records()
        ]
        marks = {RECOMMENDED: self.rows.index(self.recommended), IN_USE: None}
        return differences_chart(rows, hover_texts, self.practical, axis, marks=marks)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.rows)} rows, recommended {self.recommended.name}, {self.verdict}>"

    @property
    def _direction(self) -> str:
        return f"{'lower' if self.lower_is_better else 'higher'} is better"

    def _cells(self, dash: str) -> list[tuple[str, str, str, str]]:
        """Mean, difference, p and P(best) of each row; `dash` stands where the best row has no value."""
        others = self.rows[1:]
        scale = median(max(row.high - row.low, abs(row.difference) / 500) / 2 for row in others) or self.practical
        digits = max(0, 1 - math.floor(math.log10(scale))) if scale else 4  # two of the half-width of the interval
        cells = [(f"{self.best.mean:z.{digits}f}", dash, dash, f"{self.best.probability_best:.0%}")]
        for row in others:
            interval = f"[{format_signed(row.low, digits)}, {format_signed(row.high, digits)}]"
            difference = f"{format_signed(row.difference, digits)} {interval}"
            p = f"{row.p:.2g}" if row.p >= 0.001 else "< 0.001"
            cells.append((f"{row.mean:z.{digits}f}", difference, p, f"{row.probability_best:.0%}"))
        return cells

    def _table_with_sentences(self) -> tuple[FittedTable, list[str]]:
        means, differences, p_values, shares = zip(*self._cells("–"), strict=True)
        columns = [
            recommended_mark_column([row == self.recommended for row in self.rows]),
            Column("row", [row.name for row in self.rows], is_key=True),
            verdict_column([row.verdict for row in self.rows], _DROP_VERDICT, level=self.level),
            Column("mean", means, CellKind.NUMBER, legend=f"mean: {self._direction}", drop_order=_DROP_MEAN),
            Column(_HEADINGS[2], differences, CellKind.NUMBER, legend=_NOTES[0]),
            Column(_HEADINGS[3], p_values, CellKind.NUMBER, legend=_NOTES[1], drop_order=_DROP_P),
            Column(_HEADINGS[4], shares, CellKind.NUMBER, legend=_NOTES[2], drop_order=_DROP_P_BEST),
        ]
        return FittedTable([column for column in columns if column is not None]), self._sentences()

    def _sentences(self) -> list[str]:
        reason = (
            "the best row" if self.recommended == self.best else "the row in use: a change gains little or may harm"
        )
        counts = verdict_counts_text([row.verdict for row in self.rows], self.practical)
        required = "" if self.required is None else f"; {deciding_data_text(self.required, self.seeds, self.examples)}"
        scope = "new seeds" if self.seeds > 1 else "this seed"
        data = f"{self.seeds} seeds" if self.seeds > 1 else ""
        if self.examples > 1:
            scope += " and other examples" if data else " on other examples"
            data += f"{', ' if data else ''}{self.examples:,} examples"
        same = [row.name for row in self.rows if row.high - row.low < _SAME_DIFFERENCE * abs(row.difference)]
        bias = f"the mean of the best row is too good by about {format_margin(self.optimism)} (selection bias)"
        facts = (
            f"recommended: {self.recommended.name}, {reason}",
            f"{self.verdict}: {choice_text(self.verdict, len(self.rows) - 1, self.practical)}",
            f"{counts}{required}",
            f"the answer is for {scope} ({data})",
            self._margin_text,
            *([bias] if self.optimism else []),
            *self._left_out_texts(),
            *(
                f"the difference of {name} is the same everywhere: p is too small if scores are rounded"
                for name in same
            ),
        )
        return [format_sentence(fact) for fact in facts]

    @property
    def _notes(self) -> list[str]:
        return [*_NOTES, self._margin_text, *self._left_out_texts()]

    def _left_out_texts(self) -> list[str]:
        texts = [f"left out: {' '.join(name.split())} ({reason})" for name, reason in self.left_out.items()]
        further = len(texts) - _MAX_LEFT_OUT
        return texts[:_MAX_LEFT_OUT] + ([f"{further} further rows are left out (`left_out`)"] if further > 0 else [])

    @property
    def _margin_text(self) -> str:
        return f"rows are practically equal up to a difference of {format_margin(self.practical)} (`practical`)"
