"""Nobody gets in where they do not belong: every route, every scope, own studies and others'."""

from __future__ import annotations

import html
import logging
import re
from datetime import UTC, datetime, timedelta

import pytest

from bln_search.core.enums import Scope
from service.openapi import openapi_document
from service.security import COOKIE
from tests.support.service_world import body, study

OPEN = {"get_health", "get_readiness", "get_metrics", "get_version", "sign_in"}
READ = {
    "validate_study",
    "list_studies",
    "get_study",
    "list_trials",
    "list_evaluations",
    "list_curves",
    "get_leaderboard",
    "get_analysis",
    "get_layers",
    "list_probes",
    "get_checkpoint",
    "list_events",
    "list_configurations",
    "list_tokens",
    "get_session",
    "sign_out",
}
WRITE = {
    "submit_study",
    "change_study",
    "delete_study",
    "cancel_study",
    "pause_study",
    "resume_study",
    "retry_failed",
    "create_token",
    "revoke_token",
}
BODIES = {
    "submit_study": body("new"),
    "validate_study": body("new"),
    "change_study": {"notes": "x"},
    "create_token": {},
    "sign_in": {"token": "bln_wrong"},
}


def operations(app):
    return [
        (operation["operationId"], method.upper(), path)
        for path, methods in openapi_document(app)["paths"].items()
        for method, operation in methods.items()
    ]


def ask(client, operation, method, path, study_id, headers=None):
    address = path.format(study_id=study_id, checkpoint_id=1, token_id=10**6)
    return client.request(method, address, json=BODIES.get(operation), headers=headers)


def test_every_operation_has_an_access_rule(world):
    assert {operation_id for operation_id, _, _ in operations(world.app)} == OPEN | READ | WRITE


def test_without_a_token_only_public_operations_succeed(world):
    study_id = world.complete()
    for token in (None, "bln_wrong", ""):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        anonymous = world.client(None)
        for operation, method, path in operations(world.app):
            answer = ask(anonymous, operation, method, path, study_id, headers)
            if operation in OPEN - {"sign_in"}:
                assert answer.status_code in (200, 503), operation
            else:
                assert answer.status_code == 401, operation
                assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("end", ["revoked", "expired"])
def test_revoked_or_expired_token_gives_no_access(world, end):
    expires = datetime.now(UTC) - timedelta(seconds=1) if end == "expired" else None
    secret, info = world.ledger.tokens.create("ada", Scope.WRITE, expires_at=expires)
    if end == "revoked":
        assert world.client("ada").delete(f"/api/v1/tokens/{info.id}").status_code == 204
    response = world.client(None).get("/api/v1/studies", headers={"Authorization": f"Bearer {secret}"})
    assert response.status_code == 401


@pytest.mark.parametrize("account", ["ada", "bob", "root"])
@pytest.mark.parametrize("scope", list(Scope))
def test_scope_limits_operations_and_hides_other_accounts(world, account, scope):
    if (account == "root") != (scope is Scope.ADMIN):
        pytest.skip("only root is an admin")
    study_id = world.complete()
    every = [operation for operation in operations(world.app) if operation[0] not in OPEN]
    for operation, method, path in sorted(every, key=lambda entry: entry[0] == "delete_study"):
        answer = ask(world.client(account, scope), operation, method, path, study_id)
        foreign = "{study_id}" in path and account == "bob"
        if foreign:
            assert answer.status_code == 404, operation
        elif operation in WRITE and scope is Scope.READ:
            assert answer.status_code == 403, operation
            assert answer.json()["type"] == "urn:bln-search:problem:scope"
        else:
            assert answer.status_code not in (401, 403, 500), operation
            is_missing = operation in ("get_checkpoint", "revoke_token", "get_analysis", "get_layers")  # there is none
            assert (answer.status_code == 404) == is_missing, operation
        if operation == "delete_study" and (foreign or scope is Scope.READ):
            assert world.client().get(f"/api/v1/studies/{study_id}").status_code == 200


def test_lists_show_own_studies_and_all_to_an_admin(world):
    ada_id, bob_id = world.complete("a", "ada"), world.complete("b", "bob")

    def list_ids(client):
        return {item["id"] for item in client.get("/api/v1/studies").json()["items"]}

    assert list_ids(world.client("ada", Scope.READ)) == {ada_id}
    assert list_ids(world.client("bob", Scope.READ)) == {bob_id}
    assert list_ids(world.client("root", Scope.ADMIN)) == {ada_id, bob_id}


def test_token_creates_none_of_wider_scope_or_other_account(world):
    writer = world.client()
    assert writer.post("/api/v1/tokens", json={"scope": "admin"}).status_code == 403
    assert writer.post("/api/v1/tokens", json={"account": "bob"}).status_code == 403
    document = writer.post("/api/v1/tokens", json={"scope": "read", "label": "x", "days": 1}).json()
    assert document["account"] == "ada"
    assert document["expires_at"] is not None
    reader = world.client(None, Authorization=f"Bearer {document['secret']}")
    assert reader.get("/api/v1/studies").status_code == 200
    assert document["secret"] not in writer.get("/api/v1/tokens").text
    admin = world.client("root", Scope.ADMIN)
    assert admin.post("/api/v1/tokens", json={"account": "cyd", "scope": "write"}).status_code == 201


def test_tokens_are_listed_in_pages_newest_first(world):
    writer = world.client()
    for number in range(4):
        writer.post("/api/v1/tokens", json={"scope": "read", "label": f"number {number}"})
    first = writer.get("/api/v1/tokens", params={"limit": 3}).json()
    assert [item["label"] for item in first["items"]] == ["number 3", "number 2", "number 1"]
    second = writer.get("/api/v1/tokens", params={"limit": 3, "cursor": first["next_cursor"]}).json()
    assert second["items"][0]["label"] == "number 0"
    assert second["next_cursor"] is None
    response = world.client("bob").get("/api/v1/tokens", params={"limit": 3, "cursor": first["next_cursor"]})
    assert response.status_code == 404  # a cursor belongs to one list of one owner
    assert writer.get("/api/v1/tokens", params={"limit": 0}).status_code == 422


def test_tokens_page_links_to_older_tokens(world):
    for number in range(30):
        world.ledger.tokens.create("ada", Scope.READ, f"number {number}")
    client = world.client()
    first = client.get("/tokens").text
    assert "number 29<" in first
    assert "number 2<" not in first
    (following,) = re.findall(r'<a rel="next" href="([^"]+)"', first)
    older = client.get(html.unescape(following)).text
    assert "number 2<" in older
    assert '<a href="/tokens">First page</a>' in older
    assert 'rel="next"' not in older


def test_positive_priority_needs_an_admin(world):
    study_id = world.ledger.queue.submit(study(), "ada").study_id
    path = f"/api/v1/studies/{study_id}"
    assert world.client().patch(path, json={"priority": 1}).status_code == 403
    assert world.client().patch(path, json={"priority": -1}).json()["priority"] == -1
    assert world.client("root", Scope.ADMIN).patch(path, json={"priority": 1}).json()["priority"] == 1


class TestBrowser:
    def signed_in(self, world):
        browser = world.client(None)
        response = browser.post("/api/v1/session", json={"token": world.secrets["ada", Scope.WRITE]})
        assert response.json() == {"account": "ada", "scope": "write"}
        cookie = response.headers["set-cookie"].lower()
        assert all(attribute in cookie for attribute in ("httponly", "samesite=strict", "path=/"))
        assert world.secrets["ada", Scope.WRITE] not in cookie
        return browser

    def test_cookie_is_secure_behind_a_tls_proxy(self, world):
        token = {"token": world.secrets["ada", Scope.WRITE]}
        for origin, secure in (("http://testserver", False), ("https://testserver", True)):
            response = world.client(None).post("/api/v1/session", json=token, headers={"Origin": origin})
            assert response.status_code == 200
            assert ("secure" in response.headers["set-cookie"].lower()) == secure

    def test_session_of_a_browser_reads_and_writes(self, world):
        study_id = world.complete()
        browser = self.signed_in(world)
        assert browser.get("/api/v1/session").json()["account"] == "ada"
        same_origin = {"Origin": "http://testserver"}
        assert browser.patch(f"/api/v1/studies/{study_id}", json={"notes": "n"}, headers=same_origin).status_code == 200
        assert browser.delete("/api/v1/session", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 204
        assert browser.get("/api/v1/session").status_code == 401

    @pytest.mark.parametrize(
        "headers",
        [{}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}],
    )
    def test_cross_site_request_changes_nothing(self, world, headers):
        study_id = world.complete()
        browser = self.signed_in(world)
        response = browser.patch(f"/api/v1/studies/{study_id}", json={"notes": "evil"}, headers=headers)
        assert response.status_code == 403
        assert world.client().get(f"/api/v1/studies/{study_id}").json()["notes"] == ""

    def test_session_and_access_token_are_not_interchangeable(self, world):
        browser = self.signed_in(world)
        session = browser.cookies[COOKIE]
        assert world.client(None, Authorization=f"Bearer {session}").get("/api/v1/studies").status_code == 401
        cookie = {"Cookie": f"{COOKIE}={world.secrets['ada', Scope.WRITE]}"}
        assert world.client(None, **cookie).get("/api/v1/studies").status_code == 401

    def test_session_cannot_create_tokens(self, world):
        response = self.signed_in(world).post("/api/v1/tokens", json={}, headers={"Origin": "http://testserver"})
        assert response.status_code == 403

    def test_cross_site_request_cannot_sign_in(self, world):
        response = world.client(None).post(
            "/api/v1/session",
            json={"token": world.secrets["ada", Scope.WRITE]},
            headers={"Origin": "http://evil.example"},
        )
        assert response.status_code == 403
        assert "set-cookie" not in response.headers


def test_logs_and_responses_contain_no_secret(world, caplog):
    caplog.set_level(logging.DEBUG)
    secret = world.secrets["ada", Scope.WRITE]
    texts = []
    for client in (world.client(), world.client(None, Authorization=f"Bearer {secret}x")):
        for path in (
            "/api/v1/studies",
            "/api/v1/tokens",
            "/metrics",
            f"/api/v1/studies/{secret}",
            f"/nowhere/{secret}x",
        ):
            response = client.get(path)
            texts.append(response.text.replace(f"/{secret}", ""))  # an address is told back
    assert not any(secret in text for text in texts)
    assert not any(secret in record.getMessage() for record in caplog.records if record.name.startswith("service"))
    assert "sha256" not in world.client().get("/api/v1/tokens").text


def test_unknown_host_name_is_rejected(world):
    for host in ("evil.example", "testserver.evil.example", "", "testserver@evil"):
        assert world.client(None, Host=host).get("/healthz").status_code == 400, host
    for host in ("testserver", "testserver:8000", "TESTSERVER"):
        assert world.client(None, Host=host).get("/healthz").status_code == 200, host


def test_security_headers_are_set(world):
    response = world.client().get("/api/v1/tokens", headers={"Origin": "http://evil.example"})
    assert "access-control-allow-origin" not in response.headers
    assert "default-src 'self'" in response.headers["content-security-policy"]
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-store"


def test_wrong_tokens_are_rate_limited(world):
    world.context.rate_limiter.max_per_minute = 600
    answers = [
        world.client(None, Authorization=f"Bearer bln_{number}").get("/api/v1/studies").status_code
        for number in range(12)
    ]
    assert answers[:10] == [401] * 10
    assert answers[10:] == [429] * 2
    assert world.client().get("/api/v1/studies").status_code == 200  # who has a token is not held up


def test_token_cannot_revoke_wider_or_create_longer_tokens(world):
    wide, info = world.ledger.tokens.create("ada", Scope.ADMIN)
    assert world.client().delete(f"/api/v1/tokens/{info.id}").status_code == 404
    expiry = datetime.now(UTC) + timedelta(days=1)
    short_secret, _ = world.ledger.tokens.create("ada", Scope.WRITE, expires_at=expiry)
    document = (
        world.client(None, Authorization=f"Bearer {short_secret}").post("/api/v1/tokens", json={"days": 30}).json()
    )
    assert datetime.fromisoformat(document["expires_at"]) == expiry
    assert world.client(None, Authorization=f"Bearer {wide}").get("/api/v1/studies").status_code == 200


def test_deleted_study_is_not_shown_to_another_account(world):
    ada_id = world.complete("mine")
    ada, bob = world.client("ada"), world.client("bob")
    document = ada.get(f"/api/v1/studies/{ada_id}/leaderboard").json()
    assert document["study"] == "mine"
    ada.delete(f"/api/v1/studies/{ada_id}")
    bob_id = world.complete("theirs", "bob")
    assert bob.get(f"/api/v1/studies/{bob_id}/leaderboard").json()["study"] == "theirs"
    assert bob_id != ada_id


def test_sign_in_page_loads_nothing_from_other_hosts(world):
    anonymous = world.client(None)
    page = anonymous.get("/")
    assert page.headers["content-type"].startswith("text/html")
    for address in re.findall(r'(?:href|src)="([^"]+)"', page.text):
        assert address.startswith(("/", "#")), "nothing comes from elsewhere"
        assert not address.startswith("/static") or anonymous.get(address).status_code == 200
    assert "<script>" not in page.text
    assert anonymous.get("/static/../app.py").status_code == 404
    assert anonymous.get("/static/%2e%2e/app.py").status_code == 404


def test_token_of_a_session_expires_with_the_token_behind_it(world):
    for behind, longest in ((None, None), (datetime.now(UTC) + timedelta(days=30), 30)):
        secret = world.ledger.tokens.create("root", Scope.ADMIN, expires_at=behind)[0]
        browser = world.client(None, Origin="http://testserver")
        browser.post("/api/v1/session", json={"token": secret})
        lasting = browser.post("/api/v1/tokens", json={"scope": "write"}).json()
        assert (lasting["expires_at"] is None) == (longest is None)
        ninety = browser.post("/api/v1/tokens", json={"scope": "write", "days": 90}).json()
        remaining = datetime.fromisoformat(ninety["expires_at"]) - datetime.now(UTC)
        assert remaining.days in ((longest or 90) - 1, longest or 90)
