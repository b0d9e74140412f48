"""The response of the leaderboard endpoint: its entity tag, and its body in every format."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bln_search.core.version import VERSION
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.reports.export import leaderboard_csv
from bln_search.reports.publication import leaderboard_latex, leaderboard_markdown

MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "markdown": "text/markdown; charset=utf-8",
    "latex": "application/x-latex",
}
_FORMATTERS: Mapping[str, Callable[[Leaderboard], str]] = {
    "csv": leaderboard_csv,
    "latex": leaderboard_latex,
    "markdown": leaderboard_markdown,
}


def leaderboard_etag(study_id: int, revision: int, results: int, query: Sequence[Any]) -> str:
    """Return the entity tag, which is known before the leaderboard is computed.

    Args:
        study_id: The study.
        revision: Its revision.
        results: Number of its trials with a result.
        query: Everything else that the body depends on.
    """
    digest = hashlib.sha256(repr(query).encode()).hexdigest()[:16]
    return f"{study_id}-{revision}-{results}-{digest}-{VERSION}"


def text_body(leaderboard: Leaderboard, rows: Sequence[LeaderboardRow], output: str) -> bytes:
    """Return all rows as CSV, LaTeX or Markdown."""
    return _FORMATTERS[output](Leaderboard(leaderboard.ranked_on, tuple(rows))).encode()
