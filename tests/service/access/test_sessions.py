"""Sessions of browsers: cookies, and requests from other sites."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import event, text, update

from bln_search.core.enums import Scope
from bln_search.core.errors import StorageFullError
from bln_search.storage.engine import write_session
from bln_search.storage.tables import TokenRow
from service.security import COOKIE
from tests.support.service_world import HTML_HEADERS


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
        for headers, secure in (
            ({"Origin": "http://testserver"}, False),
            ({"Origin": "https://testserver"}, True),
            ({"X-Forwarded-Proto": "https"}, True),
            ({"X-Forwarded-Proto": "http"}, False),
        ):
            response = world.client(None).post("/api/v1/session", json=token, headers=headers)
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


@pytest.fixture
def full_world(world):
    """A service whose database cannot grow: SQLite itself refuses the writes."""
    world.complete()
    engine = world.ledger.database.engine
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("PRAGMA max_page_count=1"))
    failures = 0
    while failures < 100:  # in a row: the pages of the table and of its indexes are full one after the other
        try:
            world.ledger.tokens.create_token("cyd", Scope.READ)
            failures = 0
        except StorageFullError:
            failures += 1
    return world


def sign_in(world):
    browser = world.client(None, **HTML_HEADERS)
    answer = browser.post("/api/v1/session", json={"token": world.secrets["ada", Scope.WRITE]})
    assert answer.status_code == 200
    return browser


def test_sign_in_on_a_full_disk_lets_people_read(full_world):
    browser = sign_in(full_world)
    assert [browser.get(page).status_code for page in ("/studies", "/tokens", "/signed-in")] == [200, 200, 200]
    same_site = {"Sec-Fetch-Site": "same-origin"}
    assert browser.delete("/api/v1/session", headers=same_site).status_code == 204
    assert browser.get("/api/v1/session").status_code == 401


def end_by_another_sign_out(sessions, secret):
    sessions.end(secret)


def end_by_eviction(sessions, _secret):
    bearer = next(iter(sessions._sessions.values()))[0]
    for _ in range(1_000):
        sessions.create(bearer, timedelta(hours=1))


def end_by_expiry(sessions, secret):
    past = datetime.now(UTC) - timedelta(seconds=1)
    sessions._sessions.update({digest: (bearer, past) for digest, (bearer, _) in sessions._sessions.items()})
    assert sessions.find_bearer(secret) is None


@pytest.mark.parametrize("end", [end_by_another_sign_out, end_by_eviction, end_by_expiry])
def test_a_session_in_memory_that_ends_during_a_sign_out_does_not_take_its_token_with_it(world, monkeypatch, end):
    sessions, token = world.context.sessions_in_memory, world.secrets["ada", Scope.WRITE]
    secret = sessions.create(world.ledger.tokens.find_bearer(token), timedelta(hours=1))
    find_bearer = sessions.find_bearer

    def find_and_end(secret):
        bearer = find_bearer(secret)
        with monkeypatch.context() as patch:
            patch.setattr(sessions, "find_bearer", find_bearer)
            end(sessions, secret)
        return bearer

    monkeypatch.setattr(sessions, "find_bearer", find_and_end)
    browser = world.client(None)
    browser.cookies.set(COOKIE, secret)
    assert browser.delete("/api/v1/session", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 204
    assert world.ledger.tokens.find_bearer(token) is not None


@pytest.mark.parametrize("end", ["token revoked", "token expired", "session expired"])
def test_a_session_of_a_full_disk_ends_as_others_do(full_world, end):
    browser = sign_in(full_world)
    assert browser.get("/api/v1/session").status_code == 200
    (token,) = (token for token in full_world.ledger.tokens.list_tokens("ada") if token.scope is Scope.WRITE)
    past = datetime.now(UTC) - timedelta(seconds=1)
    if end == "session expired":
        sessions = full_world.context.sessions_in_memory._sessions
        sessions.update({digest: (bearer, past) for digest, (bearer, _) in sessions.items()})
    else:
        column = {"token revoked": "revoked_at", "token expired": "expires_at"}[end]
        with write_session(full_world.ledger.database.engine) as session:
            session.execute(text("PRAGMA max_page_count=1000000"))
            session.execute(update(TokenRow).where(TokenRow.id == token.id).values({column: past}))
    assert browser.get("/api/v1/session").status_code == 401
