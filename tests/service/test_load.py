"""Requests over the limits of the service get an immediate response, on a real server."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpx
import pytest

from bln_search.core.enums import Scope
from bln_search.storage.ledger import open_and_upgrade_ledger
from service.middleware import MAX_PENDING_LARGE_BODIES, MAX_PENDING_REQUESTS
from service.request_body import LARGE_BODY
from tests.end_to_end.service import Service, until

pytestmark = pytest.mark.xdist_group("service")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("load") / "home", "--no-worker").start()
    yield service
    service.stop()


@pytest.fixture
def client(service):
    limits = httpx.Limits(max_connections=None)
    headers = {"Authorization": f"Bearer {service.token}"}
    with httpx.Client(base_url=service.address, headers=headers, limits=limits, timeout=60) as client:
        yield client


@pytest.mark.slow
def test_requests_over_the_pending_limit_get_503(service, client):
    """Writers wait for a lock that this test holds: the answers of the first come when it is released."""
    with (
        closing(sqlite3.connect(service.home / "ledger.sqlite3", isolation_level=None)) as ledger,
        ThreadPoolExecutor(MAX_PENDING_REQUESTS + 20) as pool,
    ):
        ledger.execute("BEGIN IMMEDIATE")
        refusals = threading.Semaphore(0)

        def post(_number):
            response = client.post("/api/v1/tokens", json={})
            if response.status_code == 503:
                refusals.release()
            return response

        answers = [pool.submit(post, number) for number in range(MAX_PENDING_REQUESTS + 10)]
        for _ in range(10):
            assert refusals.acquire(timeout=20)
        for path in ("/healthz", "/version", "/metrics"):
            assert client.get(path, timeout=10).status_code == 200
        assert client.get("/readyz", timeout=10).json()["workers"] == 0
        shed = client.get("/api/v1/studies")
        assert (shed.status_code, shed.headers["retry-after"]) == (503, "1")
        assert shed.json()["type"] == "urn:bln-search:problem:busy"
        ledger.execute("ROLLBACK")
        assert Counter(answer.result().status_code for answer in answers) == {201: MAX_PENDING_REQUESTS, 503: 10}
    assert client.get("/api/v1/studies").status_code == 200


@pytest.mark.slow
def test_pending_large_bodies_leave_places_for_others(service, client):
    """Their submissions wait for a lock that this test holds."""
    study = {"name": "large", "data": {"name": "digits"}, "model": {"name": "mlp"}, "arms": [{"method": "bln"}]}
    content = json.dumps(study).encode() + b" " * LARGE_BODY
    headers = {"Content-Type": "application/json"}
    with (
        closing(sqlite3.connect(service.home / "ledger.sqlite3", isolation_level=None)) as ledger,
        ThreadPoolExecutor(MAX_PENDING_LARGE_BODIES) as pool,
    ):
        ledger.execute("BEGIN IMMEDIATE")
        answers = []
        for _ in range(MAX_PENDING_LARGE_BODIES):
            answers.append(pool.submit(client.post, "/api/v1/studies", content=content, headers=headers))
            time.sleep(0.5)  # it is parsed, and waits for the lock
        refused = client.post("/api/v1/studies", content=content, headers=headers)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert client.post("/api/v1/studies/validate", json=study).status_code == 200
        ledger.execute("ROLLBACK")
        assert {answer.result().status_code for answer in answers} <= {200, 201}
    assert client.post("/api/v1/studies", content=content, headers=headers).status_code == 200


@pytest.mark.slow
def test_stream_limit_of_an_account_holds_under_concurrency(service, client):
    study = {"name": "s", "data": {"name": "digits"}, "model": {"name": "mlp"}, "arms": [{"method": "bln"}]}
    with closing(open_and_upgrade_ledger(f"sqlite:///{service.home / 'ledger.sqlite3'}")) as ledger:
        secret, _ = ledger.tokens.create_token("ada", Scope.WRITE)
    headers = {"Authorization": f"Bearer {secret}"}
    number = client.post("/api/v1/studies", json=study, headers=headers).json()["id"]
    end, answered = threading.Event(), threading.Semaphore(0)

    def follow(_number):
        stream_headers = {**headers, "Accept": "text/event-stream"}
        status = 503
        while status == 503:  # too many are being opened
            with client.stream("GET", f"/api/v1/studies/{number}/events", headers=stream_headers) as stream:
                status = stream.status_code
                if status != 503:
                    answered.release()
                if status == 200:
                    end.wait(60)
        return status

    with ThreadPoolExecutor(150) as pool:
        statuses = [pool.submit(follow, stream) for stream in range(150)]
        for _ in statuses:
            assert answered.acquire(timeout=60)
        end.set()
        assert Counter(status.result() for status in statuses) == {200: 64, 429: 86}
    until(lambda: client.get(f"/api/v1/studies/{number}/events", headers=headers).status_code == 200, 10)
