"""The leaderboard as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.table import Table
from rich.text import Text

from bln_search.core.configuration import Source, Statistic
from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.comparison import ComparedRow
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.reports.formatting import group_mark
from bln_search.reports.leaderboard_columns import SPLITS, identity_columns, mean_and_deviation
from bln_search.reports.sentences.leaderboard import leaderboard_warning, row_reason

ComparedRows = Mapping[RowKey, ComparedRow]
_NOT_COMPARED: ComparedRows = {}


def leaderboard_table(
    board: Leaderboard, title: str = "", limit: int | None = None, compared: ComparedRows = _NOT_COMPARED
) -> Table:
    """Ranked rows, then rows without a rank.

    Args:
        board: The leaderboard.
        title: Title of the table.
        limit: Maximum number of rows; None for all.
        compared: Compared rows, whose letters of the compact letter display are shown.
    """
    table = Table(
        title=Text(title) if title else None,
        title_justify="left",
        header_style="bold",
        caption=leaderboard_warning(board),
    )
    identity = identity_columns(board.rows)
    has_batch_sizes = len({row.batch_size for row in board.rows}) > 1
    table.add_column("rank", justify="right")
    if compared:
        table.add_column("group")
    for heading, _ in identity:
        table.add_column(heading.lower())
    for statistic in Statistic:
        table.add_column(statistic.value, justify="center")
    table.add_column("population")
    if has_batch_sizes:
        table.add_column("batch", justify="right")
    for split in SPLITS:
        mark = " ▲" if split is board.ranked_on else ""
        table.add_column(f"{split} loss{mark}", justify="right")
        table.add_column(f"{split} accuracy %", justify="right")
    table.add_column("seeds", justify="right")
    for row in board.rows[:limit]:
        cells: list[Text | str] = [str(row.rank) if row.rank else "–"]
        cells += [_group_text(row, compared)] if compared else []
        cells += [str(getattr(row, attribute)) for _, attribute in identity]
        cells += [_switch_cell(row.configuration.source(statistic)) for statistic in Statistic]
        cells.append(row.estimate or "–")
        cells += [str(row.batch_size)] if has_batch_sizes else []
        cells += _metric_cells(row)
        table.add_row(*cells, str(row.seeds), style=None if row.rank else "dim")
    return table


_COMPACT_METRIC_COLUMNS = ("batch", "val. loss", "test loss", "test %", "seeds")


def compact_table(
    board: Leaderboard, title: str = "", limit: int | None = None, compared: ComparedRows = _NOT_COMPARED
) -> Table:
    """The leaderboard for a narrow terminal: one column for the configuration, means without deviation."""
    heading = Text(title) if title else None
    table = Table(
        title=heading,
        title_justify="left",
        caption=leaderboard_warning(board),
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
    )
    has_points = any(row.parameters for row in board.rows)
    left_aligned = ("arm", "parameters", "config", "population")
    for column in (
        "rank",
        *(left_aligned if has_points else (left_aligned[0], *left_aligned[2:])),
        *_COMPACT_METRIC_COLUMNS,
    ):
        table.add_column(column, justify="left" if column in left_aligned else "right", no_wrap=column != "parameters")
    for row in board.rows[:limit]:
        validation, test = row.metrics.get(Split.VALIDATION), row.metrics.get(Split.TEST)
        metrics = [
            f"{validation.loss.mean:.4f}" if validation else "–",
            f"{test.loss.mean:.4f}" if test else "–",
            f"{test.accuracy.mean:.2%}".removesuffix("%") if test else "–",
        ]
        configuration, population = str(row.configuration), row.estimate or "–"
        rank = " ".join(part for part in (str(row.rank) if row.rank else "–", _group_text(row, compared)) if part)
        identity = [row.arm, row.parameters, configuration] if has_points else [row.arm, configuration]
        table.add_row(rank, *identity, population, str(row.batch_size), *metrics, str(row.seeds))
    return table


def unranked_reasons(board: Leaderboard) -> list[str]:
    """One line for each reason why rows have no rank, with the configurations it applies to."""
    rows_by_reason: dict[str, list[LeaderboardRow]] = {}
    for row in board.rows:
        reason = row_reason(row)
        if row.rank is None and reason:
            rows_by_reason.setdefault(f"{row.state}: {reason}", []).append(row)
    return [f"no rank for {_configuration_list(rows)}: {reason}" for reason, rows in rows_by_reason.items()]


def _configuration_list(rows: list[LeaderboardRow]) -> str:
    return ", ".join(dict.fromkeys(str(row.configuration) for row in rows))


_STYLES = {Source.POPULATION: "bold green", Source.MEMORY: "bold cyan", Source.MINI_BATCH: "yellow"}


def _switch_cell(source: Source) -> Text:
    if source is Source.ABSENT:
        return Text("-", style="dim")
    return Text(source.value, style=_STYLES[source])


def _group_text(row: LeaderboardRow, compared: ComparedRows) -> str:
    compared_row = compared.get(row.key)
    return "" if compared_row is None else group_mark(compared_row)


def _metric_cells(row: LeaderboardRow) -> list[str]:
    cells: list[str] = []
    for split in SPLITS:
        metrics = row.metrics.get(split)
        if metrics is None:
            cells += ["–" if row.state is EvaluationState.MEASURED else str(row.state), ""]
        else:
            cells += [mean_and_deviation(metrics.loss, "loss"), mean_and_deviation(metrics.accuracy, "accuracy")]
    return cells
