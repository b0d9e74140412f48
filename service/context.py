"""Objects that the request handlers share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from bln_search.settings import Settings
from bln_search.storage.ledger import Ledger
from service.caching.analysis_cache import AnalysisCache
from service.caching.leaderboard_cache import LeaderboardCache
from service.caching.response_cache import ResponseCache
from service.caching.ttl_cache import TtlCache
from service.event_feed import EventFeed
from service.http.rate_limiter import RateLimiter
from service.monitoring.metrics import Metrics
from service.schemas.operations import Readiness


@dataclass
class Context:
    """Ledger, settings and caches of one application.

    Attributes:
        streams: Number of open event streams by client: an account, or a share link.
    """

    settings: Settings
    ledger: Ledger
    leaderboards: LeaderboardCache
    analyses: AnalysisCache
    responses: ResponseCache
    rate_limiter: RateLimiter
    metrics: Metrics
    event_feed: EventFeed
    readiness: TtlCache[Readiness]
    streams: Counter[str] = field(default_factory=Counter)


async def get_context(request: Request) -> Context:
    """Return the context of the request's application."""
    context: Context = request.app.state.context
    return context


ContextDep = Annotated[Context, Depends(get_context)]
