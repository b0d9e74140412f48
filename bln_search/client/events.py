"""Events of a study, as a list and as a stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from bln_search.client.errors import ServiceError
from bln_search.client.http_session import ServiceHttpSession
from bln_search.client.stream import iter_server_sent_events

_EVENT_PAGE_SIZE = 1000
"""Events that one request reads."""


def iter_events_so_far(session: ServiceHttpSession, study_id: int, after: int) -> Iterator[dict[str, Any]]:
    """Yield the events of a study so far with numbers above `after`, oldest first."""
    while True:
        params = {"after": after, "limit": _EVENT_PAGE_SIZE}
        page = session.request_json("GET", f"/studies/{study_id}/events", params=params)
        yield from page["events"]
        if len(page["events"]) < _EVENT_PAGE_SIZE:
            return
        after = page["last"]


def iter_events_live(
    session: ServiceHttpSession, study_id: int, after: int, on_idle: Callable[[], None] | None
) -> Iterator[dict[str, Any]]:
    """Yield the events of a study with numbers above `after` until it ends. A lost connection is resumed.

    Args:
        session: The session.
        study_id: The study.
        after: Number of the last event that is known.
        on_idle: Called every ten seconds without an event.
    """
    lost_since: float | None = None
    while True:
        try:
            with session.open_event_stream(f"/studies/{study_id}/events", after) as lines:
                lost_since = None
                for event in iter_server_sent_events(lines, on_idle):
                    if event is None:
                        return
                    after = event["number"]
                    yield event
        except (httpx.RequestError, ServiceError) as error:
            is_temporary = not isinstance(error, ServiceError) or error.status in (429, 503)
            lost_since = lost_since or time.monotonic()
            if not is_temporary or time.monotonic() - lost_since > session.patience:
                raise error if isinstance(error, ServiceError) else session.make_unreachable_error(error) from None
        except (ValueError, KeyError, TypeError):
            raise ServiceError(f"{session.server} sent an invalid event: is it a bln-search service?") from None
        time.sleep(0.2)
