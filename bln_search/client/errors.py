"""Errors of the client."""

from __future__ import annotations

from typing import Any

from bln_search.core.errors import BlnSearchError


class ServiceError(BlnSearchError):
    """The service rejected a request or cannot be reached.

    Attributes:
        status: HTTP status; 0 if the service cannot be reached.
        problem: The problem document (RFC 9457).
        retry_after: Seconds after which the service expects the request again; None if it does not.
    """

    def __init__(
        self,
        message: str,
        status: int = 0,
        problem: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem or {}
        self.retry_after = retry_after

    @property
    def kind(self) -> str:
        """Name of the kind of problem, such as `not-found`; empty without a problem document."""
        return str(self.problem.get("type", "")).rpartition(":")[2]
