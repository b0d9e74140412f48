"""Request ids: they connect a response with its lines in the log."""

from __future__ import annotations

import secrets

from fastapi import Request

_MAX_LENGTH = 64


def choose_request_id(proposed: str | None) -> str:
    """Return the id that the client proposed if it has only ASCII letters, digits and hyphens; else a random one."""
    is_usable = (
        proposed is not None
        and len(proposed) <= _MAX_LENGTH
        and proposed.isascii()
        and proposed.replace("-", "").isalnum()
    )
    return str(proposed) if is_usable else secrets.token_hex(8)


def get_request_id(request: Request) -> str:
    """Return the id that the middleware gave to the request."""
    return str(request.scope.get("state", {}).get("request_id", ""))
