"""Requests that the middleware rejects before the application."""

from __future__ import annotations

import asyncio

import pytest

from bln_search.core.enums import Scope


def send_request(world, messages, *, method="GET", path="/healthz", headers=()):
    """What the application sends in answer to messages of the server."""
    requests, responses = iter(messages), []

    async def receive():
        return next(requests)

    async def send(message):
        responses.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [(b"host", b"testserver"), *headers],
        "client": ("127.0.0.1", 1),
        "server": ("testserver", 80),
    }
    asyncio.run(world.app(scope, receive, send))
    return responses


@pytest.mark.parametrize("before", [[], [{"type": "http.request", "body": b"{", "more_body": True}]])
def test_interrupted_request_is_not_executed(world, before):
    study_id = world.complete()
    bearer = (b"authorization", f"Bearer {world.secrets['ada', Scope.WRITE]}".encode())
    path = f"/api/v1/studies/{study_id}"
    messages = [*before, {"type": "http.disconnect"}]
    assert send_request(world, messages, method="DELETE", path=path, headers=[bearer]) == []
    assert world.client().get(path).status_code == 200


def test_two_host_headers_are_rejected(world):
    complete_request = {"type": "http.request", "body": b"", "more_body": False}
    for host in (b"evil", b"testserver"):
        start, _ = send_request(world, [complete_request], headers=[(b"host", host)])
        assert start["status"] == 400
