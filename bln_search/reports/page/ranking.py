"""The ranked table with its intervals, and which rows share the first place."""

from __future__ import annotations

from bln_search.core.enums import Split
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.reports.formatting import over_seeds, rounded
from bln_search.reports.page.blocks import SWITCHES, Block, Column, Kind, Paragraph, Row, Section, Table, switch_cells
from bln_search.reports.page.context import Material

_FIGURES = tuple((split, metric) for split in (Split.VALIDATION, Split.TEST) for metric in ("loss", "accuracy"))


def ranking(material: Material) -> Section:
    """The table, behind what a reader must know before believing it."""
    board = material.board
    blocks: list[Block] = []
    if board.warning:
        blocks.append(Paragraph(f"{board.warning[0].upper()}{board.warning[1:]}.", warning=True))
    if not board.rows:
        blocks.append(Paragraph("Nothing is measured yet."))
        return Section("leaderboard", "Leaderboard", blocks)
    blocks += [Paragraph(_verdict(material)), _table(material)]
    blocks.append(
        Paragraph(
            "T from the population, F from the mini-batch at hand, M from the memory, - a statistic that the method "
            "does not have; E_B and Std_B are mean and deviation of the mini-batch, E_F and Std_F of the features."
        )
    )
    return Section("leaderboard", "Leaderboard", blocks)


def _verdict(material: Material) -> str:
    """Which rows share the first place, and how that was found."""
    text = f"{len(material.board.rows):,} rows, ranked by mean {material.split} loss over seeds. "
    shared = len(material.first or ())
    if material.board.best is None:
        text += "No row has all its seeds: there are no ranks. "
    elif material.analysis is not None and material.analysis.comparison is not None:
        text += "Which of them can be told apart stands below. "
    elif material.first is None:
        text += "One seed: neither intervals nor ties can be known. "
    elif shared > 1:
        text += f"{shared} rows share the first place (marked =) by their seeds alone (paired t, 5 %, Holm). "
    else:
        text += "The best row is told from the next by its seeds alone (paired t, 5 %, Holm). "
    return text + "± is half a 95 % interval of the mean over seeds."


def _table(material: Material) -> Table:
    board, first = material.board, material.sharing
    named = _named(board)
    columns = [Column("Rank", Kind.NUMBER), *SWITCHES, *(Column(label) for label, _ in named), Column("Population")]
    columns += [Column("Batch", Kind.NUMBER), *(Column(_heading(*one), Kind.NUMBER) for one in _FIGURES)]
    columns += [Column("Seeds", Kind.NUMBER), Column("State")]
    rows = [_row(row, [attribute for _, attribute in named], shares=row.candidate in first) for row in board.rows]
    more = f"All of them: bln-search leaderboard {material.study.name} --format csv"
    return Table("Configurations, best first", columns, rows, more=more)


def _named(board: Leaderboard) -> list[tuple[str, str]]:
    """Columns that only some tables need: heading and attribute."""
    wanted = [("Arm", "arm")] if len({row.arm for row in board.rows}) > 1 else []
    return wanted + ([("Parameters", "parameters")] if any(row.point for row in board.rows) else [])


def _heading(split: Split, metric: str) -> str:
    return f"{split.value.capitalize()} {metric}" + (" %" if metric == "accuracy" else "")


def _row(row: LeaderboardRow, named: list[str], *, shares: bool) -> Row:
    place = "–" if row.rank is None else f"{row.rank}{' =' if shares else ''}"
    cells = [place, *switch_cells(row.configuration), *(str(getattr(row, one)) for one in named)]
    cells += [row.estimate or "–", str(row.batch_size)]
    cells += [_figure(row, split, metric) for split, metric in _FIGURES]
    cells += [str(row.seeds), f"{row.state.value}: {row.reason}" if row.reason else row.state.value]
    return Row(cells, "first" if shares and row.rank is not None else "" if row.rank is not None else "unranked")


def _figure(row: LeaderboardRow, split: Split, metric: str) -> str:
    figures = row.figures.get(split)
    if figures is None:
        return "–"
    summary = figures.accuracy if metric == "accuracy" else figures.loss
    factor, digits = (100, 2) if metric == "accuracy" else (1, 4)
    return rounded(over_seeds(summary, row.seeds), factor, digits)
