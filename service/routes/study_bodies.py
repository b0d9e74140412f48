"""Studies as YAML in the body of a request."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from anyio import to_thread
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import Message

from bln_search.core.errors import SpecError
from bln_search.specs.load import parse_yaml
from service.security import authenticate

YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")


class StudyRoute(APIRoute):
    """A route whose body may be YAML, as in a study file; the application receives it as JSON.

    YAML is parsed in a thread, and only for a valid token, because it takes much longer than JSON.
    """

    accepted_types = ("application/json", "application/yaml")

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, which converts YAML first."""
        handle = super().get_route_handler()

        async def handle_json_or_yaml(request: Request) -> Response:
            if _media_type(request) in YAML_TYPES:
                await authenticate(request)
                body = await request.body()
                request = _with_json(request, await to_thread.run_sync(_yaml_to_json, body))
            return await handle(request)

        return handle_json_or_yaml


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _yaml_to_json(body: bytes) -> bytes:
    """Convert a study. Raises SpecError for a text that a study file may not have either."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise SpecError("body", [f"this is not UTF-8 text: {error}"]) from None
    return json.dumps(parse_yaml(text, source="body")[1]).encode()


def _with_json(request: Request, body: bytes) -> Request:
    """Return the same request with a JSON body."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
    scope = {**request.scope, "headers": [*headers, (b"content-type", b"application/json")]}
    return Request(scope, receive)
