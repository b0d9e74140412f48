"""Limits of a connection before authentication: bytes, headers and seconds, on a real server."""

from __future__ import annotations

import json
import resource
import select
import socket
import sqlite3
import time
from contextlib import ExitStack, closing

import httpx
import pytest

from service.http.connection_limits import default_max_connections
from tests.end_to_end.service import Service, until
from tests.support.external_results import RESULTS

pytestmark = pytest.mark.xdist_group("service")
CONNECTIONS = 16
START = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
BODY = b"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    short = {
        "BLN_SEARCH_HEADER_SECONDS": "1",
        "BLN_SEARCH_BODY_SECONDS": "1",
        "BLN_SEARCH_MOST_CONNECTIONS": str(CONNECTIONS),
        "BLN_SEARCH_LARGEST_RESULTS": "12000000",
    }
    service = Service(tmp_path_factory.mktemp("connections") / "home", "--no-worker", **short).start()
    yield service
    service.stop()


@pytest.fixture
def connect(service):
    """New connections, closed in the end."""
    with ExitStack() as stack:
        host, _, port = service.address.removeprefix("http://").partition(":")

        def connect(request_bytes=b""):
            connection = stack.enter_context(closing(socket.create_connection((host, int(port)), timeout=20)))
            connection.sendall(request_bytes)
            return connection

        yield connect


def answer(connection):
    """Everything until the service closes: the status, None where it says nothing, and the problem."""
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    if not received:
        return None, None
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    problem = json.loads(body)
    status = int(head.split()[1])
    assert problem["status"] == status
    assert f"X-Request-Id: {problem['request_id']}".encode() in head
    return status, problem


def send(connection, parts):
    """As much as the service takes; how many bytes."""
    sent_bytes = 0
    try:
        for part in parts:
            connection.sendall(part)
            sent_bytes += len(part)
    except (BrokenPipeError, ConnectionResetError):
        pass
    return sent_bytes


@pytest.mark.parametrize(
    ("request_bytes", "status", "kind"),
    [
        (START + b"X: " + b"x" * 40_000 + b"\r\n\r\n", 431, "headers"),
        (START + b"X: " + b"x" * 100_000, 431, "headers"),
        (START + b"".join(b"X%d: 1\r\n" % n for n in range(100)) + b"\r\n", 431, "headers"),
        (b"GET /" + b"x" * 8_192 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 414, "target"),
        (b"GET /" + b"x" * 100_000, 414, "target"),
        (b"hello\r\n\r\n", 400, "not-http"),
    ],
)
def test_request_head_over_a_limit_is_rejected(connect, request_bytes, status, kind):
    actual_status, problem = answer(connect(request_bytes))
    assert (actual_status, problem["type"]) == (status, f"urn:bln-search:problem:{kind}")


def test_request_head_at_the_limit_is_accepted(connect):
    large = START + b"".join(b"X%d: %s\r\n" % (n, b"x" * 300) for n in range(98))
    connection = connect(large + b"Connection: close\r\n\r\n")
    assert connection.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.slow
@pytest.mark.parametrize(
    "start", [START + b"X: ", BODY + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nTrailer: "]
)
def test_endless_header_value_is_cut_off(connect, service, start):
    connection = connect(start)
    assert send(connection, [b"x" * 65_536] * 1_000) < 32_000_000
    assert service.answers("/healthz")


def test_endless_body_is_cut_off_after_its_rejection(connect):
    connection = connect(BODY + b"Transfer-Encoding: chunked\r\n\r\n")
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    assert send(connection, [chunk] * 2_000) < 32_000_000
    assert connection.recv(12) in (b"HTTP/1.1 413", b"")


@pytest.mark.parametrize("path", [RESULTS, f"{RESULTS}?x=1"])
def test_results_are_read_up_to_their_own_limit(service, path):
    body = {"name": "x" * 10_000_000}
    response = httpx.post(f"{service.address}{path}", json=body, headers={"Authorization": f"Bearer {service.token}"})
    assert response.status_code == 422


@pytest.mark.parametrize(("path", "size"), [(RESULTS, 13_000_000), ("/api/v1/studies/validate", 1_100_000)])
def test_body_above_the_limit_of_its_path_is_refused(service, connect, path, size):
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {service.token}\r\nConnection: close\r\n"
    connection = connect(f"{head}Content-Length: {size}\r\n\r\n".encode())
    send(connection, [b"x" * 65_536] * (size // 65_536))
    assert connection.recv(12) == b"HTTP/1.1 413"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"", None),
        (b"\r\n", None),
        (START, 408),
        (BODY + b"Content-Length: 2\r\n\r\n", 408),
        (BODY + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", 408),
    ],
)
def test_incomplete_request_times_out(connect, request_bytes, status):
    start = time.monotonic()
    actual_status, _ = answer(connect(request_bytes))
    assert actual_status == status
    assert time.monotonic() - start > 0.9


@pytest.mark.slow
def test_slow_bytes_do_not_extend_the_timeout(connect):
    connection = connect(START)
    start = time.monotonic()
    while send(connection, [b"X: 1\r\n"]) and time.monotonic() - start < 10:
        time.sleep(0.1)
    assert time.monotonic() - start < 10


def test_empty_lines_after_a_response_do_not_keep_it_open(connect):
    connection = connect(START + b"\r\n")
    assert connection.recv(65536).startswith(b"HTTP/1.1 200")
    start = time.monotonic()
    while send(connection, [b"\r\n"]) and time.monotonic() - start < 10:
        time.sleep(0.1)
    assert time.monotonic() - start < 10


def test_oldest_incomplete_connection_is_closed_at_the_limit(connect, service):
    """The one that waits longest goes."""
    half = [connect(START) for _ in range(CONNECTIONS * 4)]
    assert httpx.get(service.address + "/healthz").status_code == 200
    assert answer(half[0])[0] == 408


@pytest.mark.slow
def test_connections_above_the_limit_get_503_with_retry_after(connect, service):
    """Writers wait for a lock that this test holds."""
    post = BODY.replace(b"/session", b"/tokens") + b"Authorization: Bearer %s\r\n" % service.token.encode()
    with closing(sqlite3.connect(service.home / "ledger.sqlite3", isolation_level=None)) as ledger:
        ledger.execute("BEGIN IMMEDIATE")
        for _ in range(CONNECTIONS * 4):
            connection = connect(post + b"Content-Length: 2\r\n\r\n{}")
            if select.select([connection], [], [], 0.2)[0]:
                break
        status, problem = answer(connection)
        ledger.execute("ROLLBACK")
    assert (status, problem["type"]) == (503, "urn:bln-search:problem:busy")
    until(lambda: service.answers("/healthz"), 10)


def test_streams_use_at_most_half_of_the_connections(service):
    study = {"name": "s", "data": {"name": "digits"}, "model": {"name": "mlp"}, "arms": [{"method": "bln"}]}
    headers = {"Authorization": f"Bearer {service.token}"}
    with httpx.Client(base_url=service.address, headers=headers) as client, ExitStack() as stack:
        number = client.post("/api/v1/studies", json=study).json()["id"]

        def follow():
            accept = {"Accept": "text/event-stream"}
            return stack.enter_context(client.stream("GET", f"/api/v1/studies/{number}/events", headers=accept))

        assert [follow().status_code for _ in range(CONNECTIONS // 2)] == [200] * (CONNECTIONS // 2)
        response = follow()
        assert (response.status_code, response.headers["retry-after"]) == (503, "5")
        assert client.get("/api/v1/studies").status_code == 200


@pytest.mark.parametrize("target", ["http://127.0.0.1/healthz", "http://127.0.0.1:1/healthz?x=1", "HTTP://LOCALHOST"])
def test_absolute_target_of_this_service_is_accepted(connect, target):
    connection = connect(f"GET {target} HTTP/1.1\r\nHost: evil\r\nConnection: close\r\n\r\n".encode())
    assert connection.recv(65536).split(b" ")[1] in (b"200", b"401", b"303")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET http://evil/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"GET http://evil:80/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"GET http://127.0.0.1@evil/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n",
        b"GET http://127.0.0.1/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n",
        b"GET /healthz HTTP/1.1\r\n",
        b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    ],
)
def test_foreign_or_ambiguous_host_is_rejected(connect, request_bytes):
    connection = connect(request_bytes + b"Connection: close\r\n\r\n")
    assert connection.recv(65536).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(("files", "connections"), [(64, 8), (256, 96), (1024, 480), (100_000, 1000)])
def test_connections_leave_room_for_other_open_files(monkeypatch, files, connections):
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (files, files))
    assert default_max_connections() == connections


def test_connections_are_limited_without_a_limit_of_open_files(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert default_max_connections() == 1000
