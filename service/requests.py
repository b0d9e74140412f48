"""What belongs to one request."""

from __future__ import annotations

import secrets

from fastapi import Request

_LONGEST = 64


def new_request_id(given: str | None) -> str:
    """The one the caller gave, where it is a plain word, else a new one."""
    plain = given is not None and given.isascii() and given.replace("-", "").isalnum() and len(given) <= _LONGEST
    return str(given) if plain else secrets.token_hex(8)


def request_id(request: Request) -> str:
    """The number under which the request stands in the logs."""
    return str(request.scope.get("state", {}).get("request_id", ""))
