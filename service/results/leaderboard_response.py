"""The response of the leaderboard endpoint: its entity tag, and its body in every format."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from bln_search.core.version import VERSION
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.reports.export import leaderboard_csv
from bln_search.reports.leaderboard_columns import LeaderboardView
from bln_search.reports.publication import leaderboard_latex, leaderboard_markdown
from service.results.equal_rows import DistinctRows

MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "markdown": "text/markdown; charset=utf-8",
    "latex": "application/x-latex",
}


def make_leaderboard_etag(study_id: int, revision: int, results: int, query: Sequence[Any]) -> str:
    """Return the entity tag, which is known before the leaderboard is computed.

    Args:
        study_id: The study.
        revision: Its revision.
        results: Number of its trials with a result.
        query: Everything else that the body depends on.
    """
    digest = hashlib.sha256(repr(query).encode()).hexdigest()[:16]
    return f"{study_id}-{revision}-{results}-{digest}-{VERSION}"


def encode_leaderboard_as_text(
    board: Leaderboard, rows: DistinctRows, output: str, *, collapse: bool, analysis: Analysis | None
) -> bytes:
    """Return all rows as CSV, LaTeX or Markdown.

    Args:
        board: The leaderboard.
        rows: The rows to write.
        output: `csv`, `latex` or `markdown`.
        collapse: Whether rows may stand for several mini-batch sizes.
        analysis: Gives each format its groups and the recommended row; None for a study that is not analyzed.
    """
    shown = Leaderboard(board.ranked_on, tuple(rows.rows))
    sizes = rows.batch_sizes if collapse else None
    match output:
        case "csv":
            text = leaderboard_csv(shown, LeaderboardView.of_analysis(shown, analysis, sizes))
        case "latex":
            text = leaderboard_latex(shown, analysis=analysis, sizes=sizes)
        case _:
            text = leaderboard_markdown(shown, analysis, sizes)
    return text.encode()
