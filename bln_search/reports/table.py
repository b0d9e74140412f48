"""The leaderboard as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.table import Table
from rich.text import Text

from bln_search.core.configuration import Source, Statistic
from bln_search.core.enums import Split
from bln_search.core.states import EvaluationState
from bln_search.ranking.comparison import ComparedRow
from bln_search.ranking.leaderboard import Candidate, Leaderboard, LeaderboardRow, SplitFigures, Summary

Groups = Mapping[Candidate, ComparedRow]
_NO_GROUPS: Groups = {}


def leaderboard_table(
    board: Leaderboard, title: str = "", limit: int | None = None, groups: Groups = _NO_GROUPS
) -> Table:
    """Ranked rows first, then those without a rank with their reason. limit: at most so many rows.

    groups: rows that were compared; two that share a letter cannot be told apart.
    """
    table = Table(
        title=Text(title) if title else None, title_justify="left", header_style="bold", caption=board.warning
    )
    arms = len({row.arm for row in board.rows}) > 1
    points = any(row.parameters for row in board.rows)
    sizes = len({row.batch_size for row in board.rows}) > 1
    table.add_column("rank", justify="right")
    if groups:
        table.add_column("group")
    if arms:
        table.add_column("arm")
    if points:
        table.add_column("parameters")
    for statistic in Statistic:
        table.add_column(statistic.value, justify="center")
    table.add_column("population")
    if sizes:
        table.add_column("batch", justify="right")
    for split in (Split.VALIDATION, Split.TEST):
        mark = " ▲" if split is board.ranked_on else ""
        table.add_column(f"{split} loss{mark}", justify="right")
        table.add_column(f"{split} accuracy %", justify="right")
    table.add_column("seeds", justify="right")
    for row in board.rows[:limit]:
        cells: list[Text | str] = [str(row.rank) if row.rank else "–"]
        cells += [_group(row, groups)] if groups else []
        cells += [row.arm] if arms else []
        cells += [row.parameters] if points else []
        cells += [_switch(row.configuration.source(statistic)) for statistic in Statistic]
        cells.append(row.estimate or "–")
        cells += [str(row.batch_size)] if sizes else []
        cells += _figures(row)
        table.add_row(*cells, str(row.seeds), style=None if row.rank else "dim")
    return table


_FIGURES = ("batch", "val. loss", "test loss", "test %", "seeds")


def compact_table(board: Leaderboard, title: str = "", limit: int | None = None, groups: Groups = _NO_GROUPS) -> Table:
    """The leaderboard for a narrow terminal: configurations as words, means without their spread."""
    heading = Text(title) if title else None
    table = Table(title=heading, title_justify="left", caption=board.warning, box=box.SIMPLE, padding=(0, 1, 0, 0))
    points = any(row.parameters for row in board.rows)
    left = ("arm", "parameters", "word", "population")
    for column in ("rank", *(left if points else (left[0], *left[2:])), *_FIGURES):
        table.add_column(column, justify="left" if column in left else "right", no_wrap=column != "parameters")
    for row in board.rows[:limit]:
        validation, test = row.figures.get(Split.VALIDATION), row.figures.get(Split.TEST)
        figures = [
            f"{validation.loss.mean:.4f}" if validation else "–",
            f"{test.loss.mean:.4f}" if test else "–",
            f"{test.accuracy.mean:.2%}".removesuffix("%") if test else "–",
        ]
        word, population = str(row.configuration), row.estimate or "–"
        place = " ".join(part for part in (str(row.rank) if row.rank else "–", _group(row, groups)) if part)
        named = [row.arm, row.parameters, word] if points else [row.arm, word]
        table.add_row(place, *named, population, str(row.batch_size), *figures, str(row.seeds))
    return table


def reasons(board: Leaderboard) -> list[str]:
    """One line for each reason why rows have no rank, with the configurations it stands for."""
    found: dict[str, list[LeaderboardRow]] = {}
    for row in board.rows:
        if row.rank is None and row.reason:
            found.setdefault(f"{row.state}: {row.reason}", []).append(row)
    return [f"no rank for {_words(rows)}: {reason}" for reason, rows in found.items()]


def _words(rows: list[LeaderboardRow]) -> str:
    return ", ".join(dict.fromkeys(str(row.configuration) for row in rows))


_STYLES = {Source.POPULATION: "bold green", Source.MEMORY: "bold cyan", Source.MINI_BATCH: "yellow"}


def _switch(source: Source) -> Text:
    if source is Source.ABSENT:
        return Text("-", style="dim")
    return Text(source.value, style=_STYLES[source])


def _group(row: LeaderboardRow, groups: Groups) -> str:
    found = groups.get(row.candidate)
    return "" if found is None else found.group


def _figures(row: LeaderboardRow) -> list[str]:
    cells: list[str] = []
    for split in (Split.VALIDATION, Split.TEST):
        figures: SplitFigures | None = row.figures.get(split)
        if figures is None:
            cells += ["–" if row.state is EvaluationState.MEASURED else str(row.state), ""]
        else:
            cells += [_number(figures.loss, 1, 4), _number(figures.accuracy, 100, 2)]
    return cells


def _number(summary: Summary, factor: float, digits: int) -> str:
    mean = f"{summary.mean * factor:.{digits}f}"
    return mean if summary.deviation is None else f"{mean} ± {summary.deviation * factor:.{digits}f}"
