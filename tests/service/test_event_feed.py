"""Event streams share one poll of the database and use no thread of other requests."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack

import pytest
from anyio import to_thread
from sqlalchemy import event, text

from bln_search.core.enums import Scope
from service.event_feed import EventFeed
from service.http.problems import ProblemException
from service.routes.events import list_events
from service.security import StudyAccess
from tests.support.service_world import study


@pytest.fixture
def following(world):
    """Subscribe to running studies; `meanwhile` gets the feed and the subscriptions."""
    token = world.ledger.tokens.find_bearer(world.secrets["ada", Scope.READ]).token_id

    def follow(times, meanwhile):
        studies = [world.ledger.queue.submit_study(study(f"s{number}"), "ada").study_id for number in range(2)]

        async def run():
            feed = EventFeed(world.ledger)
            try:
                with ExitStack() as stack:
                    subscriptions = [
                        stack.enter_context(feed.use_subscription(studies[n % 2], token)) for n in range(times)
                    ]
                    return await asyncio.wait_for(meanwhile(feed, subscriptions), 30)
            finally:  # a poll that still reads would open a connection after the ledger is closed
                feed.closing = True
                while len(asyncio.all_tasks()) > 1:
                    await asyncio.sleep(0.01)

        return asyncio.run(run())

    return follow


@pytest.mark.slow
def test_many_streams_query_the_database_as_often_as_one(world, following):
    statements = []
    event.listen(
        world.ledger.database.engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2])
    )

    async def some_looks(_feed, subscriptions):
        del statements[:]
        while len([statement for statement in statements if "last_event" in statement]) < 5:
            await asyncio.sleep(0.01)
        assert all(subscription.last_event for subscription in subscriptions)
        return len(statements)

    assert following(100, some_looks) <= following(1, some_looks) + 2


def test_streams_continue_while_all_threads_are_busy(following):
    async def blocked(_feed, subscriptions):
        to_thread.current_default_thread_limiter().total_tokens = 1
        release = threading.Event()
        stuck = asyncio.create_task(to_thread.run_sync(release.wait))
        await asyncio.sleep(0)
        try:
            await subscriptions[0].wait_until_event_after(0, 20)
            return subscriptions[0].last_event
        finally:
            release.set()
            await stuck

    assert following(1, blocked) > 0


@pytest.mark.parametrize("kind", ["token", "database", "service"])
def test_streams_end_with_token_database_and_service(world, following, kind):
    async def ended(feed, subscriptions):
        await subscriptions[0].wait_until_event_after(0, 20)
        newest = subscriptions[0].last_event
        if kind == "token":
            world.ledger.tokens.revoke(subscriptions[0].token_id)
        elif kind == "service":
            feed.closing = True
        else:
            with world.ledger.database.engine.begin() as connection:
                connection.execute(text("ALTER TABLE study RENAME TO elsewhere"))
        for subscription in subscriptions:
            await subscription.wait_until_event_after(newest, 20)
        return [subscription.is_closed for subscription in subscriptions]

    assert following(3, ended) == [True] * 3


def test_stream_of_a_deleted_study_ends(world, following):
    async def deleted(_feed, subscriptions):
        await subscriptions[0].wait_until_event_after(0, 20)
        world.ledger.queue.cancel(subscriptions[0].study_id)
        world.ledger.studies.delete_and_list_unneeded_files(subscriptions[0].study_id)
        while not subscriptions[0].has_ended:
            await asyncio.sleep(0.01)
        return subscriptions[1].has_ended

    assert following(2, deleted) is False


def test_accepted_streams_count_towards_the_limit(world):
    """Of many that are opened at once, none has sent anything when the others are looked at."""
    study_id = world.ledger.queue.submit_study(study("s"), "ada").study_id
    bearer = world.ledger.tokens.find_bearer(world.secrets["ada", Scope.READ])
    access = StudyAccess(study_id, world.context, bearer)

    async def accepted():
        return [await list_events(access, world.context, accept="text/event-stream") for _ in range(64)]

    async def ended(stream):
        await stream({"type": "http", "asgi": {"spec_version": "2.3"}}, asyncio.Future, asyncio.Event().wait)

    async def one_too_many():
        streams = await accepted()
        with pytest.raises(ProblemException, match="64 streams"):
            await accepted()
        for stream in streams:
            sending = asyncio.create_task(ended(stream))
            await asyncio.sleep(0)
            sending.cancel()
            await asyncio.wait([sending])
        await accepted()

    asyncio.run(one_too_many())
