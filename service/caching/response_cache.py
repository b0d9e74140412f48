"""Response bodies, cached by their entity tag."""

from __future__ import annotations

from threading import Lock

from cachetools import LRUCache

_CAPACITY = 256
_MAX_BYTES = 200_000
"""Larger bodies are not cached."""


class ResponseCache:
    """The most recently used bodies: the same entity tag, the same bytes."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._bodies: LRUCache[str, bytes] = LRUCache(_CAPACITY)

    def find_body(self, etag: str) -> bytes | None:
        """Return the body with this entity tag; None if it is not cached."""
        with self._lock:
            return self._bodies.get(etag)

    def put_unless_large(self, etag: str, body: bytes) -> None:
        """Cache a body, unless it is larger than `_MAX_BYTES`."""
        if len(body) <= _MAX_BYTES:
            with self._lock:
                self._bodies[etag] = body
