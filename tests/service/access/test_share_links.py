"""Share links over HTTP: one study, read-only, without an account, until they end."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from sqlalchemy import update

from bln_search.core.enums import Scope
from bln_search.storage.engine import write_session
from bln_search.storage.share_links import MAX_LINKS
from bln_search.storage.tables import TokenRow
from service.security import SHARE_COOKIE
from tests.support.service_world import HTML_HEADERS, STUDIES, study

SHOWN = {
    *("", "/live", "/parts/head", "/parts/leading", "/parts/answer", "/parts/cells", "/parts/details"),
    *("/parts/difference", "/study.yaml"),
    *("/leaderboard", "/charts", "/charts/{name}.csv", "/charts/{name}.json", "/configurations/{code}"),
    *("/layers", "/layers/switches.json", "/layers/switches.csv"),
    *("/streams", "/streams/{name}.json", "/streams/{name}.csv"),
    *("/trials", "/trials/{trial_id:number}", "/trials/{trial_id:number}/curve.json"),
    "/trials/{trial_id:number}/curve.csv",
}
"""Pages of the study that a link shows."""

SHOWN_BY_API = {
    *("", "/trials", "/trials/{trial_id:number}", "/evaluations", "/curves", "/leaderboard", "/events"),
    *("/analysis", "/layers", "/streams", "/probes"),
}
HIDDEN = {
    *("/repeat", "/fine-tune", "/share", "/share-links", "/deliveries", "/checkpoints/{checkpoint_id:number}"),
    *("/exports", "/exports/{export_id:number}", "/exports/{export_id:number}/download"),
    "/parts/exports/{export_id:number}",
}
"""What needs an account."""


@pytest.fixture
def shared(world):
    """A study with results, and a link to it."""
    study_id = world.complete()
    link = world.client().post(f"{STUDIES}/{study_id}/share-links", json={"label": "for bob", "days": 7}).json()
    return study_id, link


@pytest.fixture
def visitor(world, shared):
    """A browser without an account that opened the link."""
    client = TestClient(world.app, headers=HTML_HEADERS, raise_server_exceptions=False, base_url="http://testserver")
    assert client.get(shared[1]["path"]).status_code == 200
    return client


def test_link_opens_the_study_without_an_account(visitor, shared):
    page = visitor.get(f"/studies/{shared[0]}")
    assert page.status_code == 200
    assert "shared, read-only" in page.text
    assert "data-action" not in page.text
    assert 'href="/studies/new"' not in page.text
    assert "Sign out" not in page.text


@pytest.mark.parametrize("page", ["/leaderboard", "/configurations/FFFF", "/trials"])
def test_path_of_a_shared_page_has_the_name_of_the_study(visitor, shared, page):
    crumbs = re.search(r'<p class="crumbs">.*?</p>', visitor.get(f"/studies/{shared[0]}{page}").text)[0]
    shown = re.sub(r"<[^>]*>", "", re.sub(r'<span class="of-account">.*?</span>', "", crumbs))
    assert shown.startswith("done / ")
    assert "Studies" not in shown


def paths_of_study(router, prefix):
    """Yield the paths of GET below `prefix`, as templates."""
    for route in router.routes:
        included = getattr(route, "original_router", None)
        if included is not None:
            yield from paths_of_study(included, prefix)
        elif isinstance(route, APIRoute) and "GET" in route.methods and route.path.startswith(prefix):
            yield route.path.removeprefix(prefix)


PREFIX = "/studies/{study_id:number}"


def test_link_shows_exactly_these_pages_of_its_study(world, visitor, shared):
    """Pages and operations have the same paths below the study. A new one must be sorted into one of the sets."""
    assert set(paths_of_study(world.app, PREFIX)) == SHOWN | SHOWN_BY_API | HIDDEN
    trial_id = world.ledger.trials.list_trials(shared[0])[0].id
    for start, shown in (("", SHOWN), ("/api/v1", SHOWN_BY_API)):
        for path in sorted(SHOWN | SHOWN_BY_API | HIDDEN):
            address = fill(f"{start}/studies/{shared[0]}{path}", trial_id)
            response = visitor.get(address, follow_redirects=False)
            if path not in shown:
                assert response.status_code in (303, 401, 403, 404, 405), address
            elif "/layers" in path or "/streams" in path or path == "/analysis":
                assert response.status_code == 404, address  # there is none yet
            else:
                assert response.status_code == 200, address


def fill(path, trial_id):
    values = {
        "{trial_id:number}": str(trial_id),
        "{checkpoint_id:number}": "1",
        "{export_id:number}": "1",
        "{name}": "curves",
        "{code}": "TTFF",
    }
    for name, value in values.items():
        path = path.replace(name, value)
    return path


@pytest.mark.parametrize("path", ["/studies", "/studies/new", "/tokens", "/compare", "/settings", "/api/v1/studies"])
def test_link_shows_no_other_page(visitor, path):
    assert visitor.get(path, follow_redirects=False).status_code in (303, 401)


def test_link_shows_no_other_study(world, visitor, shared):
    other_id = world.complete("other")
    assert visitor.get(f"/studies/{other_id}", follow_redirects=False).status_code == 303
    secret = shared[1]["secret"]
    headers = {"Authorization": f"Bearer {secret}", "Cookie": f"{SHARE_COOKIE}={secret}"}
    anonymous = world.client(None)
    assert anonymous.get(f"{STUDIES}/{other_id}", headers=headers).status_code == 404
    assert anonymous.get(f"{STUDIES}/{shared[0]}", headers=headers).status_code == 200


def test_secret_of_a_link_is_a_token_for_reading_its_study(world, shared):
    study_id, link = shared
    client = world.client(None, Authorization=f"Bearer {link['secret']}")
    assert client.get(f"{STUDIES}/{study_id}/leaderboard").status_code == 200
    for method, path in (
        ("GET", STUDIES),
        ("GET", "/api/v1/tokens"),
        ("GET", f"{STUDIES}/{study_id}/share-links"),
        ("GET", f"{STUDIES}/{study_id}/checkpoints/1"),
        ("POST", f"{STUDIES}/{study_id}/cancel"),
        ("POST", f"{STUDIES}/{study_id}/share-links"),
        ("PATCH", f"{STUDIES}/{study_id}"),
        ("DELETE", f"{STUDIES}/{study_id}"),
    ):
        body = {} if method in ("POST", "PATCH") else None
        assert client.request(method, path, json=body).status_code == 403, path
    assert client.post("/api/v1/session", json={"token": link["secret"]}).status_code == 401


def test_another_account_with_a_link_can_read_but_not_change(world, shared):
    """The link of a study of ada, in a browser that is signed in as bob, who may change his own studies."""
    study_id, link = shared
    bob = TestClient(world.app, raise_server_exceptions=False)
    token = world.secrets["bob", Scope.WRITE]
    assert bob.post("/api/v1/session", json={"token": token}, headers={"Sec-Fetch-Site": "same-origin"}).is_success
    bob.get(link["path"])
    assert bob.get(f"{STUDIES}/{study_id}").status_code == 200
    same_site = {"Sec-Fetch-Site": "same-origin"}
    for method, path in (("POST", "/cancel"), ("DELETE", ""), ("POST", "/share-links")):
        body = {} if path == "/share-links" else None
        assert bob.request(method, f"{STUDIES}/{study_id}{path}", json=body, headers=same_site).status_code == 403
    own = world.complete("own", "bob")
    assert bob.delete(f"{STUDIES}/{own}", headers=same_site).status_code == 204


def test_owner_who_opens_the_link_keeps_all_rights(world, shared):
    study_id, link = shared
    ada = TestClient(world.app, headers=HTML_HEADERS)
    token = world.secrets["ada", Scope.WRITE]
    ada.post("/api/v1/session", json={"token": token}, headers={"Sec-Fetch-Site": "same-origin"})
    ada.get(link["path"])
    assert "data-action" in ada.get(f"/studies/{study_id}").text


@pytest.mark.parametrize("end", ["revoked", "expired", "unknown"])
def test_link_that_ended_says_so_on_one_page(world, visitor, shared, end):
    study_id, link = shared
    path = link["path"]
    if end == "revoked":
        assert world.client().delete(f"{STUDIES}/{study_id}/share-links/{link['id']}").status_code == 204
    elif end == "expired":
        past = datetime.now(UTC) - timedelta(seconds=1)
        with write_session(world.ledger.database.engine) as session:
            session.execute(update(TokenRow).where(TokenRow.id == link["id"]).values(expires_at=past))
    else:
        path = path[:-1]
    for address in (path,) if end == "unknown" else (path, f"/studies/{study_id}", f"/studies/{study_id}/leaderboard"):
        response = visitor.get(address, follow_redirects=False)
        assert response.status_code == 410, address
        assert "This link has ended" in response.text
        assert "for a new one" in response.text


def test_cookie_of_a_link_is_sent_for_its_study_only(world, shared):
    response = world.client(None).get(shared[1]["path"], follow_redirects=False)
    cookies = response.headers.get_list("set-cookie")
    assert {cookie.split("Path=")[1].split(";")[0] for cookie in cookies} == {
        f"/studies/{shared[0]}",
        f"/api/v1/studies/{shared[0]}",
    }
    assert all("HttpOnly" in cookie and "SameSite=lax" in cookie for cookie in cookies)


@pytest.mark.parametrize("days", [0, 91, 1.5, "7"])
def test_lifetime_of_a_link_is_limited(world, days):
    study_id = world.complete()
    assert world.client().post(f"{STUDIES}/{study_id}/share-links", json={"days": days}).status_code == 422


def test_too_many_links_of_a_study_are_a_conflict(world, shared):
    address = f"{STUDIES}/{shared[0]}/share-links"
    answers = [world.client().post(address, json={"days": 7}).status_code for _ in range(MAX_LINKS)]
    assert answers == [201] * (MAX_LINKS - 1) + [409]


def test_link_does_not_outlive_the_token_that_created_it(world):
    study_id = world.complete()
    soon = datetime.now(UTC) + timedelta(hours=1)
    secret, _ = world.ledger.tokens.create_token("ada", Scope.WRITE, expires_at=soon)
    client = world.client(None, Authorization=f"Bearer {secret}")
    link = client.post(f"{STUDIES}/{study_id}/share-links", json={"days": 90}).json()
    assert datetime.fromisoformat(link["expires_at"]) <= soon


def test_share_page_lists_links_without_their_secrets(world, shared):
    study_id, link = shared
    ada = world.client("ada", **HTML_HEADERS)
    page = ada.get(f"/studies/{study_id}/share").text
    assert "for bob" in page
    assert link["secret"] not in page
    assert f'data-revoke="{link["id"]}"' in page
    assert world.client("ada", Scope.READ, **HTML_HEADERS).get(f"/studies/{study_id}/share").status_code == 403
    assert world.client("bob", **HTML_HEADERS).get(f"/studies/{study_id}/share").status_code == 404


@pytest.mark.parametrize("creator", ["token", "session", "admin"])
def test_link_ends_with_the_token_that_created_it(world, creator):
    study_id = world.complete()
    account = "root" if creator == "admin" else "ada"
    scope = Scope.ADMIN if creator == "admin" else Scope.WRITE
    secret, token = world.ledger.tokens.create_token(account, scope)
    client = world.client(None, Authorization=f"Bearer {secret}")
    same_site = {"Sec-Fetch-Site": "same-origin"}
    if creator == "session":
        client = world.client(None)
        client.post("/api/v1/session", json={"token": secret})
    link = client.post(f"{STUDIES}/{study_id}/share-links", json={"days": 7}, headers=same_site).json()
    if creator == "session":
        assert client.delete("/api/v1/session", headers=same_site).status_code == 204
    visitor = world.client(None)
    assert visitor.get(link["path"]).status_code == 200  # also after signing out
    world.ledger.tokens.revoke(token.id)
    assert visitor.get(link["path"]).status_code == 410
    assert world.client("ada").get(f"{STUDIES}/{study_id}").status_code == 200


def test_link_shows_no_account(world, visitor, shared):
    """Events name the account that requested them, and a study its owner."""
    study_id = shared[0]
    queued = world.queue.submit_study(study("queued"), "ada").study_id
    for request in (world.queue.pause, world.queue.resume, world.queue.cancel):
        request(queued, account="ada")
    link = world.client().post(f"{STUDIES}/{queued}/share-links", json={"days": 7}).json()
    api = world.client(None, Authorization=f"Bearer {link['secret']}")
    events = api.get(f"{STUDIES}/{queued}/events").json()["events"]
    stream = api.get(f"{STUDIES}/{queued}/events", headers={"Accept": "text/event-stream"}).text
    assert {event["kind"] for event in events} >= {"study_accepted", "study_paused", "study_cancelled"}
    assert all("account" not in event["data"] for event in events)
    assert all(
        "account" in event["data"] for event in world.client().get(f"{STUDIES}/{queued}/events").json()["events"]
    )
    assert "study_cancelled" in stream
    assert '"ada"' not in stream
    assert api.get(f"{STUDIES}/{queued}").json()["owner"] == ""
    assert world.client().get(f"{STUDIES}/{queued}").json()["owner"] == "ada"
    for page in ("", "/leaderboard", "/trials", "/parts/head", "/parts/details"):
        assert not re.search(r"\bada\b", visitor.get(f"/studies/{study_id}{page}").text), page


@pytest.mark.parametrize(
    ("headers", "secure"),
    [
        ({}, False),
        ({"X-Forwarded-Proto": "http"}, False),
        ({"X-Forwarded-Proto": "https"}, True),
        ({"X-Forwarded-Proto": "HTTPS, http"}, True),
    ],
)
def test_cookies_of_a_link_need_tls_where_the_visitor_used_it(world, shared, headers, secure):
    response = world.client(None).get(shared[1]["path"], follow_redirects=False, headers=headers)
    assert [("Secure" in cookie) for cookie in response.headers.get_list("set-cookie")] == [secure, secure]
