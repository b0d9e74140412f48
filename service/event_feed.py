"""Polls the database for new events of all followed studies together, and notifies their streams."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from sqlalchemy.exc import SQLAlchemyError

from bln_search.core.errors import BlnSearchError
from bln_search.core.states import StudyState
from bln_search.storage.events import EventRecord
from bln_search.storage.ledger import Ledger

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.25
"""Interval between two polls of the database."""

_TOKEN_CHECK_SECONDS = 2.0
"""Interval between two checks whether the tokens of the streams are still valid."""

_READ_THREADS = 2
"""Threads of all streams together; other requests have their own."""

_MAX_EVENTS_PER_READ = 200
"""Events that one query reads."""

_ENDED_STATES = (StudyState.COMPLETE, StudyState.CANCELLED, StudyState.FAILED)
T = TypeVar("T")


class StudySubscription:
    """One stream's view of a study.

    Attributes:
        last_event: Number of the study's newest event.
        has_ended: The study will have no more events.
        is_closed: The stream must end now: its token is invalid, the database cannot be read, or the service stops.
    """

    def __init__(self, study_id: int, token_id: int) -> None:
        self.study_id, self.token_id = study_id, token_id
        self.last_event, self.has_ended, self.is_closed = 0, False, False
        self._changed = asyncio.Event()

    async def wait_until_event_after(self, after: int, timeout: float) -> None:
        """Return when the study has an event after number `after` or has ended, or after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while not (self.is_closed or self.has_ended or self.last_event > after) and time.monotonic() < deadline:
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), deadline - time.monotonic())
            except TimeoutError:
                return

    def set_last_event_and_notify(self, last_event: int, *, has_ended: bool) -> None:
        """Set the present state of the study."""
        if (last_event, has_ended) != (self.last_event, self.has_ended):
            self.last_event, self.has_ended = last_event, has_ended
            self._changed.set()

    def close(self) -> None:
        """End the stream."""
        self.is_closed = True
        self._changed.set()


class EventFeed:
    """All subscriptions of the application. One task polls while there are subscriptions.

    Attributes:
        closing: The service stops; all streams end.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.closing = False
        self._ledger = ledger
        self._limiter = CapacityLimiter(_READ_THREADS)
        self._subscriptions: set[StudySubscription] = set()
        self._task: asyncio.Task[None] | None = None
        self._subscribed = asyncio.Event()
        self._tokens_checked_at = 0.0

    @contextmanager
    def use_subscription(self, study_id: int, token_id: int) -> Iterator[StudySubscription]:
        """Follow a study inside the block."""
        subscription = StudySubscription(study_id, token_id)
        self._subscriptions.add(subscription)
        if self._task is None or self._task.done():
            self._subscribed = asyncio.Event()
            self._task = asyncio.create_task(self._poll_while_subscribed())
        self._subscribed.set()
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    async def list_next_events(self, study_id: int, after: int) -> Sequence[EventRecord]:
        """Return the next events of a study."""
        return await self._run_in_reader_thread(
            lambda: self._ledger.events.list_events(study_id, after, _MAX_EVENTS_PER_READ)
        )

    async def _poll_while_subscribed(self) -> None:
        try:
            while self._subscriptions and not self.closing:
                self._subscribed.clear()
                await self._poll_database_once()
                await self._sleep_until_next_poll()
        except (BlnSearchError, SQLAlchemyError) as error:
            _log.warning("the database cannot be read, event streams end: %s", error)
        finally:
            for subscription in self._subscriptions:
                subscription.close()

    async def _poll_database_once(self) -> None:
        subscriptions = list(self._subscriptions)
        last_events = await self._run_in_reader_thread(
            lambda: self._ledger.events.read_last_event_numbers_and_study_states(
                {subscription.study_id for subscription in subscriptions}
            )
        )
        for subscription in subscriptions:
            last_event, state = last_events.get(subscription.study_id, (subscription.last_event, None))
            subscription.set_last_event_and_notify(last_event, has_ended=state is None or state in _ENDED_STATES)
        if time.monotonic() - self._tokens_checked_at > _TOKEN_CHECK_SECONDS:
            valid_tokens = await self._run_in_reader_thread(
                lambda: self._ledger.tokens.filter_valid_token_ids(
                    {subscription.token_id for subscription in subscriptions}
                )
            )
            self._tokens_checked_at = time.monotonic()
            for subscription in subscriptions:
                if subscription.token_id not in valid_tokens:
                    subscription.close()

    async def _sleep_until_next_poll(self) -> None:
        """Sleep until the next poll; a new subscription is polled for at once."""
        try:
            await asyncio.wait_for(self._subscribed.wait(), _POLL_SECONDS)
        except TimeoutError:
            return

    async def _run_in_reader_thread(self, read: Callable[[], T]) -> T:
        return await to_thread.run_sync(read, limiter=self._limiter)
