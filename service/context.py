"""What every request needs: the ledger, the queue, the settings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy import Engine

from bln_search.settings import Settings
from bln_search.storage.ledger import Ledger
from bln_search.storage.queue import Queue
from service.analyses import Analyses
from service.feed import Feed
from service.leaderboard_cache import Boards
from service.limits import Rates
from service.metrics import Metrics
from service.schemas import Readiness
from service.ttl_cache import Cached


@dataclass
class Context:
    """One of these for each application."""

    settings: Settings
    ledger: Ledger
    queue: Queue
    boards: Boards
    analyses: Analyses
    rates: Rates
    metrics: Metrics
    feed: Feed
    readiness: Cached[Readiness]
    streams: Counter[str] = field(default_factory=Counter)

    @property
    def engine(self) -> Engine:
        """The database."""
        return self.ledger.engine


async def get_context(request: Request) -> Context:
    """The context of the application that has the request."""
    context: Context = request.app.state.context
    return context


Here = Annotated[Context, Depends(get_context)]
