"""Parser of server-sent events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def iter_server_sent_events(
    lines: Iterable[str], on_idle: Callable[[], None] | None = None
) -> Iterator[dict[str, Any] | None]:
    """Yield the events of a stream, and None at its end. An incomplete last event is dropped.

    Args:
        lines: Lines of the stream.
        on_idle: Called at each comment, which a service sends while it has no event.
    """
    kind, data = "", ""
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data += value
        elif line and not name and on_idle is not None:
            on_idle()
        elif not line and data:
            yield None if kind == "end" else json.loads(data)
            kind, data = "", ""
