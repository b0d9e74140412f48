"""Errors of the client."""

from __future__ import annotations

from typing import Any

from bln_search.core.errors import BlnSearchError


class ServiceError(BlnSearchError):
    """The service rejected a request or cannot be reached.

    Attributes:
        status: HTTP status; 0 if the service cannot be reached.
        problem: The problem document (RFC 9457).
    """

    def __init__(self, message: str, status: int = 0, problem: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem or {}
