"""The largest body of each request."""

from __future__ import annotations

from fastapi import Request

from bln_search.settings import Settings
from service.security import check_request_token

RESULTS_PATH = "/api/v1/studies/results"
"""Path whose bodies contain per-example results, which are larger than others."""


async def authorize_and_get_body_limit(request: Request, settings: Settings) -> int:
    """Return the largest body in bytes.

    A large body is read for a valid token only, because nobody else may occupy so much memory.

    Raises:
        ProblemException: 401 for results without a valid token.
    """
    if request.method != "POST" or request.scope["path"] != RESULTS_PATH:
        return settings.largest_body
    length = int(request.headers.get("content-length", settings.largest_body + 1))
    if length <= settings.largest_body:
        return settings.largest_body
    await check_request_token(request)
    return max(settings.largest_body, settings.largest_results)
