"""Parser of server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any


def iter_server_sent_events(lines: Iterable[str]) -> Iterator[dict[str, Any] | None]:
    """Yield the events of a stream, and None at its end. An incomplete last event is dropped."""
    kind, data = "", ""
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data += value
        elif not line and data:
            yield None if kind == "end" else json.loads(data)
            kind, data = "", ""
