"""Requests per minute and client."""

from __future__ import annotations

import time
from threading import Lock

from service.http.problems import ProblemException

_WINDOW = 60.0
"""Length of the window in seconds."""

_MAX_CLIENTS = 10_000
"""The window restarts when it has more clients, so that memory is bounded."""


class RateLimiter:
    """Counts requests in a fixed window of a minute. Each web process counts its own."""

    def __init__(self, max_per_minute: int) -> None:
        self.max_per_minute = max_per_minute
        self._lock = Lock()
        self._counts: dict[str, int] = {}
        self._window_start = time.monotonic()

    def count_request_and_check_limit(self, client: str, weight: int = 1) -> None:
        """Count a request.

        Args:
            client: Account or address.
            weight: Number of requests that this one counts as.

        Raises:
            ProblemException: 429 if the client is over the limit.
        """
        with self._lock:
            now = time.monotonic()
            if now - self._window_start >= _WINDOW or len(self._counts) > _MAX_CLIENTS:
                self._counts.clear()
                self._window_start = now
            total = self._counts.get(client, 0) + weight
            self._counts[client] = total
            seconds_left = max(1, round(self._window_start + _WINDOW - now))
        if total > self.max_per_minute:
            detail = f"more than {self.max_per_minute} requests in a minute; wait {seconds_left} seconds"
            raise ProblemException(429, "too-many-requests", detail, headers={"Retry-After": str(seconds_left)})
