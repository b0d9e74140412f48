"""Access tokens: creation, lists, revocation, expiry and guessing."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta

import pytest

from bln_search.core.enums import Scope


@pytest.mark.parametrize("end", ["revoked", "expired"])
def test_revoked_or_expired_token_gives_no_access(world, end):
    expires = datetime.now(UTC) - timedelta(seconds=1) if end == "expired" else None
    secret, info = world.ledger.tokens.create_token("ada", Scope.WRITE, expires_at=expires)
    if end == "revoked":
        assert world.client("ada").delete(f"/api/v1/tokens/{info.id}").status_code == 204
    response = world.client(None).get("/api/v1/studies", headers={"Authorization": f"Bearer {secret}"})
    assert response.status_code == 401


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
        world.ledger.tokens.create_token("ada", Scope.READ, f"number {number}")
    client = world.client()
    first = client.get("/tokens").text
    assert "number 29<" in first
    assert "number 2<" not in first
    (following,) = re.findall(r'<a rel="next" href="([^"]+)"', first)
    older = client.get(html.unescape(following)).text
    assert "number 2<" in older
    assert '<a href="/tokens">First page</a>' in older
    assert 'rel="next"' not in older


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
    wide, info = world.ledger.tokens.create_token("ada", Scope.ADMIN)
    assert world.client().delete(f"/api/v1/tokens/{info.id}").status_code == 404
    expiry = datetime.now(UTC) + timedelta(days=1)
    short_secret, _ = world.ledger.tokens.create_token("ada", Scope.WRITE, expires_at=expiry)
    document = (
        world.client(None, Authorization=f"Bearer {short_secret}").post("/api/v1/tokens", json={"days": 30}).json()
    )
    assert datetime.fromisoformat(document["expires_at"]) == expiry
    assert world.client(None, Authorization=f"Bearer {wide}").get("/api/v1/studies").status_code == 200


def test_all_tokens_of_an_account_are_revoked_at_once(world):
    created = world.client().post("/api/v1/tokens", json={"scope": "read"}).json()["secret"]
    browser = world.client(None, Origin="http://testserver")
    browser.post("/api/v1/session", json={"token": created})
    assert world.client("bob").post("/api/v1/tokens/revoke", json={"account": "ada"}).status_code == 403
    answer = world.client("root", Scope.ADMIN).post("/api/v1/tokens/revoke", json={"account": "ada"})
    assert answer.json() == {"account": "ada", "revoked": 3}
    for client in (world.client(), world.client(None, Authorization=f"Bearer {created}"), browser):
        assert client.get("/api/v1/studies").status_code == 401
    assert world.client("bob").get("/api/v1/studies").status_code == 200


def test_writer_revokes_no_admin_token_of_the_account(world):
    wide, _ = world.ledger.tokens.create_token("ada", Scope.ADMIN)
    assert world.client().post("/api/v1/tokens/revoke", json={"account": "ada"}).json()["revoked"] == 2
    assert world.client(None, Authorization=f"Bearer {wide}").get("/api/v1/studies").status_code == 200
