"""The columns of the leaderboard: the one place that declares them.

Terminal, LaTeX and Markdown, the report, the web pages, and CSV, JSON and Parquet render these descriptors. A new
column is a `RowColumn` in `ROW_COLUMNS`; metrics are those of `reports.metric_columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Flag, auto

from bln_search.core.method import Statistic
from bln_search.core.records import RowKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import ComparedRow, RowVerdict
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.reports.formatting import compared_rows_by_key, recommended_row_key
from bln_search.reports.sentences.leaderboard import find_unranked_reason
from bln_search.reports.tables.columns import CellKind

BatchSizes = Mapping[RowKey, tuple[int, ...]]
"""Mini-batch sizes, in increasing order, of rows that stand for rows which are equal to them by construction."""


class Form(Flag):
    """Forms of the leaderboard.

    Members:
        TERMINAL: The table that the command prints.
        PUBLICATION: LaTeX and Markdown.
        REPORT: The report of a study.
        PAGE: The page of the service.
        EXPORT: CSV, JSON, JSON lines, Parquet, and the rows of REST.
    """

    TERMINAL = auto()
    PUBLICATION = auto()
    REPORT = auto()
    PAGE = auto()
    EXPORT = auto()
    TABLES = TERMINAL | PUBLICATION | REPORT | PAGE
    ALL = TABLES | EXPORT


_NOWHERE = Form(0)


@dataclass(frozen=True)
class ViewedRow:
    """A row with what an analysis says about it.

    Attributes:
        row: The row.
        batch_sizes: Mini-batch sizes of the rows that equal it, in increasing order.
        compared: The row's part of the comparison of all rows; None without one.
        is_recommended: Whether it is the recommended row; None without a recommendation.
    """

    row: LeaderboardRow
    batch_sizes: tuple[int, ...]
    compared: ComparedRow | None = None
    is_recommended: bool | None = None


class LeaderboardView:
    """The rows of a leaderboard with what an analysis says about them.

    Args:
        board: The leaderboard.
        compared: Compared rows by key; empty without a comparison.
        recommended: The recommended row; None without one.
        sizes: Mini-batch sizes of the rows that stand for several.
    """

    def __init__(
        self,
        board: Leaderboard,
        compared: Mapping[RowKey, ComparedRow] | None = None,
        recommended: RowKey | None = None,
        sizes: BatchSizes | None = None,
    ) -> None:
        self.board, self.compared, self.recommended, self.sizes = board, compared or {}, recommended, sizes

    @classmethod
    def of_analysis(
        cls, board: Leaderboard, analysis: Analysis | None, sizes: BatchSizes | None = None
    ) -> LeaderboardView:
        """The rows with an analysis; None for a study that is not analyzed."""
        return cls(board, compared_rows_by_key(analysis), recommended_row_key(analysis), sizes)

    def batch_sizes_of(self, key: RowKey) -> tuple[int, ...]:
        """Mini-batch sizes of the rows that a row stands for."""
        return (self.sizes or {}).get(key, (key.batch_size,))

    def view_row(self, row: LeaderboardRow) -> ViewedRow:
        """A row with the verdict and the recommendation of the rows that it stands for."""
        if not self.sizes and not self.compared and self.recommended is None:
            return ViewedRow(row, (row.batch_size,))
        key = row.key
        equal = [key.with_batch_size(size) for size in self.batch_sizes_of(key)]
        compared = next((self.compared[other] for other in equal if other in self.compared), None)
        is_recommended = None if self.recommended is None else self.recommended in equal
        return ViewedRow(row, tuple(other.batch_size for other in equal), compared, is_recommended)


Value = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class RowColumn:
    """A column of the leaderboard that is no metric.

    Attributes:
        name: Name in exports and links.
        value: Value of a row in exports; None for a missing one; by default the attribute.
        attribute: Attribute of `LeaderboardRow` that has the value.
        text: Text of a row in tables; by default that of the value, and a dash for a missing one.
        forms: Where it is shown.
        label: Its heading in tables, in lower case; by default the name.
        kind: How cells are set.
        type: Type of the values in Parquet.
        explanation: What it contains, where the heading does not say it.
        term: Anchor of its term in the glossary; empty without one.
        where_rows_differ: Forms in which it is shown only where rows have different values; on the page at first.
        is_optional: Whether tables leave it out where no row has a text.
        identifies: Whether it identifies its row, so that further tables in a terminal repeat it. With a drop order it
            does only where rows differ, and is not dropped then.
        of_analysis: Whether only exports with an analysis have it.
        drop_order: Order in which a narrow terminal drops it; None for never.
    """

    name: str
    value: Callable[[ViewedRow], Value] | None = None
    attribute: str = ""
    text: Callable[[ViewedRow], str] | None = None
    forms: Form = Form.ALL
    label: str = ""
    kind: CellKind = CellKind.TEXT
    type: type[str | int | float | bool] = str
    explanation: str = ""
    term: str = ""
    where_rows_differ: Form = _NOWHERE
    is_optional: bool = False
    identifies: bool = False
    of_analysis: bool = False
    drop_order: int | None = None

    @property
    def heading(self) -> str:
        """The heading in lower case."""
        return self.label or self.name

    def value_of_row(self, viewed: ViewedRow) -> Value:
        """The value of a row in exports."""
        if self.value is not None:
            return self.value(viewed)
        value: Value = getattr(viewed.row, self.attribute)
        return value

    def text_of_row(self, viewed: ViewedRow) -> str:
        """The cell of a row in a table."""
        if self.text is not None:
            return self.text(viewed)
        value = self.value_of_row(viewed)
        return "–" if value is None else str(value)

    def do_rows_differ(self, rows: Iterable[LeaderboardRow]) -> bool:
        """Whether rows have different values of the attribute."""
        return len({value for row in rows if (value := getattr(row, self.attribute)) is not None}) > 1

    def is_shown(self, form: Form, rows: Sequence[ViewedRow]) -> bool:
        """Whether a table has it."""
        if form not in self.forms:
            return False
        if form in self.where_rows_differ:
            return self.do_rows_differ(viewed.row for viewed in rows)
        return not self.is_optional or any(map(self.text_of_row, rows))


def _state_and_reason(viewed: ViewedRow) -> str:
    reason = find_unranked_reason(viewed.row)
    return f"{viewed.row.state.value}: {reason}" if reason else viewed.row.state.value


def evaluation_setting_id_of_row(key: RowKey) -> str:
    """What rows with other configurations have in common with this one: arm, point, estimate and batch size."""
    parts = {"arm": key.arm, "parameters": key.point, "population": key.estimate, "batch_size": key.batch_size}
    return ";".join(f"{name}={value}" for name, value in parts.items() if value)


def _source_column(statistic: Statistic) -> RowColumn:
    return RowColumn(
        name=statistic.value,
        value=lambda viewed: viewed.row.configuration.source_of(statistic).value,
        forms=Form.PUBLICATION | Form.REPORT | Form.EXPORT,
        kind=CellKind.SWITCH,
    )


def _analysis_column(name: str, value: Callable[[ComparedRow], float], *, of_best: bool = True) -> RowColumn:
    """A figure of the comparison in exports. of_best: whether the best row, which is compared with itself, has it."""

    def value_of_row(viewed: ViewedRow) -> float | None:
        compared = viewed.compared
        if compared is None or (compared.verdict is RowVerdict.BEST and not of_best):
            return None
        return value(compared)

    return RowColumn(name=name, value=value_of_row, forms=Form.EXPORT, type=float, of_analysis=True)


METRICS_HERE = "metrics"
"""Place of the metrics among the columns of a table."""

ROW_COLUMNS: tuple[RowColumn | str, ...] = (
    RowColumn(
        name="setting",
        value=lambda viewed: evaluation_setting_id_of_row(viewed.row.key),
        forms=Form.EXPORT,
        of_analysis=True,
    ),
    RowColumn(
        name="recommended",
        value=lambda viewed: viewed.is_recommended,
        text=lambda viewed: "*" if viewed.is_recommended else "",
        forms=Form.TERMINAL | Form.EXPORT,
        kind=CellKind.CODE,
        type=bool,
        explanation="* recommended",
        is_optional=True,
        of_analysis=True,
    ),
    RowColumn(name="rank", attribute="rank", kind=CellKind.NUMBER, type=int, term="rank", identifies=True),
    RowColumn(
        name="verdict",
        value=lambda viewed: None if viewed.compared is None else viewed.compared.verdict.value,
        text=lambda viewed: "" if viewed.compared is None else viewed.compared.verdict.value,
        forms=Form.TERMINAL | Form.PUBLICATION | Form.PAGE | Form.EXPORT,
        kind=CellKind.CODE,
        explanation="the row beside the best one (95 %)",
        term="verdict",
        is_optional=True,
        of_analysis=True,
        drop_order=10,
    ),
    RowColumn(
        name="arm",
        attribute="arm",
        term="arm",
        where_rows_differ=Form.TABLES,
        identifies=True,
    ),
    RowColumn(
        name="parameters",
        value=lambda viewed: viewed.row.point or None,
        text=lambda viewed: viewed.row.parameters,
        forms=Form.TERMINAL | Form.PUBLICATION | Form.REPORT | Form.EXPORT,
        is_optional=True,
        identifies=True,
    ),
    RowColumn(
        name="configuration",
        value=lambda viewed: str(viewed.row.configuration),
        forms=Form.TERMINAL | Form.EXPORT,
        kind=CellKind.CODE,
        identifies=True,
    ),
    *map(_source_column, Statistic),
    RowColumn(
        name="population",
        attribute="estimate",
        kind=CellKind.CODE,
        term="estimate",
        where_rows_differ=Form.PAGE,
        identifies=True,
        drop_order=7,
    ),
    RowColumn(
        name="batch_size",
        attribute="batch_size",
        text=lambda viewed: ", ".join(map(str, viewed.batch_sizes)),
        label="batch",
        kind=CellKind.NUMBER,
        type=int,
        explanation="mini-batch size at inference",
        term="evaluation",
        where_rows_differ=Form.TERMINAL | Form.PAGE,
        identifies=True,
    ),
    METRICS_HERE,
    RowColumn(
        name="state",
        value=lambda viewed: viewed.row.state.value,
        text=lambda viewed: "" if viewed.row.state is EvaluationState.MEASURED else viewed.row.state.value,
        forms=Form.TERMINAL | Form.EXPORT,
        kind=CellKind.CODE,
        is_optional=True,
    ),
    RowColumn(name="state_and_reason", value=_state_and_reason, forms=Form.REPORT, label="state"),
    RowColumn(
        name="cost",
        value=lambda viewed: viewed.row.configuration.num_statistics_from_mini_batch,
        forms=Form.PAGE,
        kind=CellKind.NUMBER,
        explanation="statistics that are computed from the mini-batch at inference, of those the method has",
        term="cost",
    ),
    RowColumn(
        name="seeds",
        attribute="seeds",
        forms=Form.TERMINAL | Form.REPORT | Form.PAGE | Form.EXPORT,
        kind=CellKind.NUMBER,
        type=int,
        term="seed",
        where_rows_differ=Form.TERMINAL,
        drop_order=7,
    ),
    RowColumn(name="reason", value=lambda viewed: find_unranked_reason(viewed.row), forms=Form.EXPORT),
    _analysis_column("loss_above_best", lambda compared: compared.above_best.mean),
    _analysis_column("loss_above_best_low", lambda compared: compared.above_best.low, of_best=False),
    _analysis_column("loss_above_best_high", lambda compared: compared.above_best.high, of_best=False),
    _analysis_column("p_value", lambda compared: compared.above_best.adjusted, of_best=False),
    _analysis_column("p_best", lambda compared: compared.first_share),
)
"""The columns in the order of tables; exports have those of the analysis last, and `reason` after the losses."""


def list_row_columns(form: Form) -> list[RowColumn]:
    """The columns of a form, without metrics."""
    return [column for column in ROW_COLUMNS if not isinstance(column, str) and form in column.forms]
