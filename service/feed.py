"""What is new in the studies that somebody follows: one look at the database for all streams together."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from bln_search.core.errors import BlnSearchError
from bln_search.core.states import StudyState
from bln_search.storage.access import valid_tokens
from bln_search.storage.browse import list_events, newest_events
from bln_search.storage.tables import EventRow

_log = logging.getLogger(__name__)
_PERIOD = 0.25
"""Seconds between two looks."""

_CHECK = 2.0
"""Seconds after which a stream notices that its token has ended."""

_THREADS = 2
"""Of all streams together: requests have their own."""

_AT_ONCE = 200
_OVER = (StudyState.COMPLETE, StudyState.CANCELLED, StudyState.FAILED)
T = TypeVar("T")


class Follower:
    """Somebody who follows a study.

    newest: the number of its last event.
    over: it will have no more.
    cut: the stream ends now: the token has ended, the database cannot be read, or the service stops.
    """

    def __init__(self, study_id: int, token_id: int) -> None:
        self.study_id, self.token_id = study_id, token_id
        self.newest, self.over, self.cut = 0, False, False
        self.news = asyncio.Event()

    async def wait(self, after: int, seconds: float) -> None:
        """Until there is an event after number `after`, no more will come, or so many seconds have passed."""
        end = time.monotonic() + seconds
        while not (self.cut or self.over or self.newest > after) and time.monotonic() < end:
            self.news.clear()
            try:
                await asyncio.wait_for(self.news.wait(), end - time.monotonic())
            except TimeoutError:
                return

    def hear(self, newest: int, *, over: bool) -> None:
        """How the study stands."""
        if (newest, over) != (self.newest, self.over):
            self.newest, self.over = newest, over
            self.news.set()

    def end(self) -> None:
        """Cut the stream."""
        self.cut = True
        self.news.set()


class Feed:
    """Everybody who follows a study."""

    def __init__(self, engine: Engine) -> None:
        self.closing = False
        self._engine = engine
        self._limiter = CapacityLimiter(_THREADS)
        self._followers: set[Follower] = set()
        self._task: asyncio.Task[None] | None = None
        self._joined = asyncio.Event()
        self._checked = 0.0

    @contextmanager
    def follow(self, study_id: int, token_id: int) -> Iterator[Follower]:
        """Hear of a study while the block lasts."""
        follower = Follower(study_id, token_id)
        self._followers.add(follower)
        if self._task is None or self._task.done():
            self._joined = asyncio.Event()
            self._task = asyncio.create_task(self._look_on())
        self._joined.set()
        try:
            yield follower
        finally:
            self._followers.discard(follower)

    async def events(self, study_id: int, after: int) -> Sequence[EventRow]:
        """The next events of a study."""
        return await self._read(lambda: list_events(self._engine, study_id, after, _AT_ONCE))

    async def _look_on(self) -> None:
        """Until nobody follows anything."""
        try:
            while self._followers and not self.closing:
                self._joined.clear()
                await self._look()
                await self._pause()
        except (BlnSearchError, SQLAlchemyError) as error:
            _log.warning("streams of events end, as the database cannot be read: %s", error)
        finally:
            for follower in self._followers:
                follower.end()

    async def _look(self) -> None:
        following = list(self._followers)
        standing = await self._read(lambda: newest_events(self._engine, {one.study_id for one in following}))
        for one in following:
            newest, state = standing.get(one.study_id, (one.newest, None))
            one.hear(newest, over=state is None or state in _OVER)
        if time.monotonic() - self._checked > _CHECK:
            valid = await self._read(lambda: valid_tokens(self._engine, {one.token_id for one in following}))
            self._checked = time.monotonic()
            for one in following:
                if one.token_id not in valid:
                    one.end()

    async def _pause(self) -> None:
        """Shorter where somebody has joined, who hears at once how the study stands."""
        try:
            await asyncio.wait_for(self._joined.wait(), _PERIOD)
        except TimeoutError:
            return

    async def _read(self, read: Callable[[], T]) -> T:
        return await to_thread.run_sync(read, limiter=self._limiter)
