"""Objects that the request handlers share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from bln_search.settings import Settings
from bln_search.storage.ledger import Ledger
from bln_search.storage.tokens import Bearer
from service.caching.analysis_cache import AnalysisCache
from service.caching.leaderboard_cache import LeaderboardCache
from service.caching.response_cache import ResponseCache
from service.caching.ttl_cache import ExpiringCachedValue
from service.event_feed import EventFeed
from service.http.rate_limiter import RateLimiter
from service.monitoring.metrics import ServiceMetrics
from service.schemas.operations import Readiness
from service.sessions_in_memory import SessionsInMemory


@dataclass
class AppContext:
    """Ledger, settings and caches of one application.

    Attributes:
        sessions_in_memory: Sessions of browsers that signed in while the disk was full.
        streams: Number of open event streams by client: an account, or a share link.
    """

    settings: Settings
    ledger: Ledger
    leaderboards: LeaderboardCache
    analyses: AnalysisCache
    responses: ResponseCache
    rate_limiter: RateLimiter
    metrics: ServiceMetrics
    event_feed: EventFeed
    readiness: ExpiringCachedValue[Readiness]
    sessions_in_memory: SessionsInMemory
    streams: Counter[str] = field(default_factory=Counter)


def find_bearer(context: AppContext, secret: str) -> Bearer | None:
    """Return the bearer of a token or a session; None where the secret is unknown, revoked or expired."""
    return context.ledger.tokens.find_bearer(secret) or context.sessions_in_memory.find_bearer(secret)


async def get_app_context(request: Request) -> AppContext:
    """Return the context of the request's application."""
    context: AppContext = request.app.state.context
    return context


ContextDep = Annotated[AppContext, Depends(get_app_context)]
