"""Leaderboards and analyses."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from bln_search.client.errors import ServiceError
from bln_search.client.http_session import PAGE_SIZE, ServiceHttpSession
from bln_search.core.enums import Split
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.reports.export import row_from_json_fields

_LEADERBOARD_DELAYS = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Seconds to wait before each attempt to read a leaderboard that changes between its pages."""

_FIRST_POLL, _MAX_POLL = 0.25, 10.0
"""Seconds between two requests for an analysis, at first and at most, unless the service says when to ask again."""


class _LeaderboardChangedError(Exception):
    """The leaderboard has changed since its first page."""


def read_consistent_leaderboard(session: ServiceHttpSession, study_id: int, filters: dict[str, Any]) -> Leaderboard:
    """Return one version of a leaderboard. Raises ServiceError if it changes again and again."""
    for delay in _LEADERBOARD_DELAYS:
        time.sleep(delay)
        with suppress(_LeaderboardChangedError):
            return _read_leaderboard_pages(session, study_id, filters)
    raise ServiceError(
        f"the leaderboard of study {study_id} changed {len(_LEADERBOARD_DELAYS)} times while it was read: "
        f"try later or read it in one response: {session.server}/api/v1/studies/{study_id}/leaderboard?format=csv"
    )


def wait_for_analysis(session: ServiceHttpSession, study_id: int, seconds: float) -> Analysis | None:
    """Return the analysis of a study; None if there is none after these seconds, or if the study is not complete."""
    deadline = time.monotonic() + seconds
    delay = _FIRST_POLL
    while True:
        try:
            return Analysis.model_validate(session.request_json("GET", f"/studies/{study_id}/analysis")["analysis"])
        except ServiceError as error:
            if error.kind == "no-analysis":
                return None
            if error.kind != "not-analysed":
                raise
            pause = max(delay, error.retry_after or 0.0)
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return None
        time.sleep(min(pause, remaining))
        delay = min(_MAX_POLL, 2 * delay)


def _read_leaderboard_pages(session: ServiceHttpSession, study_id: int, filters: dict[str, Any]) -> Leaderboard:
    """Return all pages of one version of the leaderboard. Raises _LeaderboardChangedError if it changes."""
    rows: list[dict[str, Any]] = []
    cursor = None
    while True:
        params = {**filters, "limit": PAGE_SIZE, "cursor": cursor}
        try:
            page = session.request_json("GET", f"/studies/{study_id}/leaderboard", params=params)
        except ServiceError as error:
            if cursor is not None and error.kind == "no-such-page":
                raise _LeaderboardChangedError from None
            raise
        rows += page["rows"]
        cursor = page["next_cursor"]
        if cursor is None:
            return Leaderboard(Split(page["ranked_on"]), tuple(row_from_json_fields(row) for row in rows))
