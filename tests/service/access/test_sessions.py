"""Sessions of browsers: cookies, and requests from other sites."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bln_search.core.enums import Scope
from service.security import COOKIE


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


def test_token_of_a_session_expires_with_the_token_behind_it(world):
    for behind, longest in ((None, None), (datetime.now(UTC) + timedelta(days=30), 30)):
        secret = world.ledger.tokens.create_token("root", Scope.ADMIN, expires_at=behind)[0]
        browser = world.client(None, Origin="http://testserver")
        browser.post("/api/v1/session", json={"token": secret})
        lasting = browser.post("/api/v1/tokens", json={"scope": "write"}).json()
        assert (lasting["expires_at"] is None) == (longest is None)
        ninety = browser.post("/api/v1/tokens", json={"scope": "write", "days": 90}).json()
        remaining = datetime.fromisoformat(ninety["expires_at"]) - datetime.now(UTC)
        assert remaining.days in ((longest or 90) - 1, longest or 90)
