"""A ranked table in a model card: its verdict in words, and its first rows."""

from __future__ import annotations

from dataclasses import replace

from bln_search.core.records import RowKey
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.reports.leaderboard_columns import BatchSizes
from bln_search.reports.publication import leaderboard_markdown
from bln_search.reports.sentences.analysis import summarize_analysis

_MOST_ROWS = 10


def render_card_ranking(
    board: Leaderboard, analysis: Analysis | None, exported: RowKey | None = None, sizes: BatchSizes | None = None
) -> str:
    """The verdict, and the first ten rows with the recommended and the exported one, as Markdown.

    Args:
        board: The leaderboard.
        analysis: Its analysis; None if there is none.
        exported: The row of the network; None if it is not known.
        sizes: Mini-batch sizes of the rows that stand for several.
    """
    recommendation = None if analysis is None else analysis.recommendation
    recommended = None if recommendation is None else recommendation.key
    rows = tuple(
        row
        for place, row in enumerate(board.rows)
        if row.rank and (place < _MOST_ROWS or row.key in (recommended, exported))
    )
    others = len(board.rows) - len(rows)
    return "\n".join(
        [
            *_place_lines(board, recommended, exported),
            *([] if analysis is None else _verdict_lines(analysis)),
            leaderboard_markdown(replace(board, rows=rows), analysis, sizes),
            *([f"{others} more rows are not shown.\n"] if others else []),
        ]
    )


def _place_lines(board: Leaderboard, recommended: RowKey | None, exported: RowKey | None) -> list[str]:
    """Which row the network is."""
    row = next((row for row in board.rows if row.key == exported), None)
    if row is None:
        return []
    place = f"row {row.rank} of {len(board.rows)}" if row.rank else "a row without a rank"
    if recommended is not None:
        place += ", the recommended one" if exported == recommended else ", not the recommended one"
    return [f"This network is {place}.\n"]


def _verdict_lines(analysis: Analysis) -> list[str]:
    summary = summarize_analysis(analysis, standalone=True)
    figures = f" ({summary.figures})" if summary.figures else ""
    headline = [] if summary.headline is None else [f"**{summary.headline}**{figures}"]
    lines = [*(f"Warning: {text}" for text in summary.warnings), *headline, *summary.facts]
    return [*(f"- {line}" for line in lines), ""]
