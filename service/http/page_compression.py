"""Compress pages, scripts and the data of charts; responses of the REST API are sent as they are."""

from __future__ import annotations

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

_MIN_BYTES = 300
_LEVEL = 5
"""Compression level between speed and size: each response is compressed anew."""


class PageCompressionMiddleware:
    """Middleware that compresses what a browser requests.

    Pages contain no secret, so that the length of a compressed page reveals none. Large responses of the API are
    cached as bytes with an entity tag; compressing them for each request would take longer than sending them.

    Args:
        app: The application.
        uncompressed: Path prefix of the responses that are not compressed.
    """

    def __init__(self, app: ASGIApp, uncompressed: str) -> None:
        self._app = app
        self._compressed = GZipMiddleware(app, minimum_size=_MIN_BYTES, compresslevel=_LEVEL)
        self._prefix = f"{uncompressed}/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        is_api = scope.get("path", "").startswith(self._prefix)
        await (self._app if is_api else self._compressed)(scope, receive, send)
