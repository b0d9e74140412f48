"""Limits of HTTP connections: number, request size, and time until a request is complete."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

_MAX_CONNECTIONS = 1_000
_RESERVED_FILES = 64
"""Files that the database, the logs and the process itself need."""


def default_max_connections() -> int:
    """Return the number of connections for the process's limit on open files: two files each, socket and download."""
    if sys.platform == "win32":
        return _MAX_CONNECTIONS
    import resource  # noqa: PLC0415 - does not exist on Windows

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    return max(8, min(_MAX_CONNECTIONS, (files - _RESERVED_FILES) // 2))


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits that apply before a request is authenticated.

    Attributes:
        connections: Number of simultaneous connections.
        header_seconds: Time from the connection, or the first byte of a later request, until the headers are complete.
        body_seconds: Time from then until the body is complete.
        largest_body: Bytes.
        larger_bodies: The limit in bytes of each path that takes larger bodies than others.
    """

    connections: int
    header_seconds: float
    body_seconds: float
    largest_body: int
    larger_bodies: Mapping[bytes, int] = field(default_factory=dict)

    def find_body_limit(self, target: bytes) -> int:
        """Return the largest body in bytes of a request with this target."""
        return max(self.largest_body, self.larger_bodies.get(target.partition(b"?")[0], 0))
