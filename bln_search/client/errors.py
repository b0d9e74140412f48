"""What can go wrong between here and a service."""

from __future__ import annotations

from typing import Any

from bln_search.core.errors import BlnSearchError


class ServiceError(BlnSearchError):
    """The service refused, or cannot be reached: `status` is 0 then. `problem` is its document (RFC 9457)."""

    def __init__(self, message: str, status: int = 0, problem: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem or {}
