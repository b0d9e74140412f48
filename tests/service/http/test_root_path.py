"""The service under a path of a reverse proxy, which passes the path on or removes it."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import urljoin

import pytest
from fastapi.testclient import TestClient

import service
from bln_search.core.enums import Scope
from bln_search.settings import Settings
from service.app import make_app
from service.body_limits import RESULTS_PATH
from service.server import _make_connection_limits
from tests.support.service_world import HTML_HEADERS, STUDIES, World, body

ROOT = "/bln"
SERVICE = Path(service.__file__).parent
_ADDRESS = re.compile(r'\s([a-z-]+)="(/[^"]*)"')
_NO_ADDRESSES = ("data-root", "data-value", "title")


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("BLN_SEARCH_ROOT_PATH", f"{ROOT}/")
    service_world = World(tmp_path / "service")
    yield service_world
    service_world.close()


@pytest.fixture(params=["passes", "removes"])
def browser(world, request):
    """Open a browser in front of a proxy. Nothing but the path of the service leads to the service."""

    async def proxy(scope, receive, send):
        if scope["type"] == "http":
            assert scope["path"].startswith(f"{ROOT}/"), "another program of the host would get this request"
            path = scope["path"].removeprefix(ROOT) if request.param == "removes" else scope["path"]
            scope = {**scope, "path": path}
        await world.app(scope, receive, send)

    with TestClient(proxy, headers={**HTML_HEADERS, "Sec-Fetch-Site": "same-origin"}) as client:
        yield client


def sign_in(browser, world):
    secret = world.secrets["ada", Scope.WRITE]
    return browser.post(f"{ROOT}/api/v1/session", json={"token": secret})


def find_addresses(page):
    """Every address in a page, relative ones too, by attribute."""
    found = {(name, unescape(value)) for name, value in _ADDRESS.findall(page) if name not in _NO_ADDRESSES}
    queries = {("href", unescape(value)) for value in re.findall(r'\shref="(\?[^"]*)"', page)}
    return found | queries


def test_every_address_of_every_page_leads_to_the_service(world, browser):
    study_id = world.complete()
    world.queue.update_study_metadata(
        study_id, {"title": "/studies", "notes": "[list](/studies) [other](//else.where)"}
    )
    assert sign_in(browser, world).status_code == 200
    waiting, seen = [f"{ROOT}/studies", f"{ROOT}/studies/{study_id}/share"], set()
    while waiting:
        path = waiting.pop()
        page = browser.get(path)
        assert page.status_code in (200, 404, 503), path  # charts without data, networks without a store
        if "text/html" not in page.headers["content-type"]:
            continue
        for name, address in find_addresses(page.text):
            target = urljoin(path, address)
            if address.startswith("//"):
                assert address == "//else.where"
                continue
            assert target.startswith(f"{ROOT}/"), (path, name, address)
            kind = re.sub(r"\d+|=[^&]*|\?.*", "#", target)
            if name in ("href", "src") and kind not in seen:
                seen.add(kind)
                waiting.append(target)
    assert {f"{ROOT}/static/page.js#", f"{ROOT}/studies/#/leaderboard", f"{ROOT}/tokens"} <= seen
    page = browser.get(f"{ROOT}/studies").text
    assert 'data-root="/bln"' in page
    assert 'title="/studies"' in page  # a text of a user


@pytest.mark.parametrize("script", sorted((SERVICE / "static").glob("*.js")), ids=lambda file: file.name)
def test_scripts_add_the_path_to_their_addresses(script):
    assert re.findall(r'(?<!\bat\()["`]/[a-z?].*', script.read_text()) == []


def test_redirects_and_cookies_have_the_path(world, browser):
    study_id = world.complete()
    signed_out = browser.get(f"{ROOT}/studies?tag=a", follow_redirects=False)
    assert signed_out.headers["location"] == f"{ROOT}/?next=%2Fstudies%3Ftag%3Da"
    answer = sign_in(browser, world)
    assert f"Path={ROOT}/;" in answer.headers["set-cookie"]
    link = browser.post(f"{ROOT}{STUDIES}/{study_id}/share-links", json={}).json()
    browser.delete(f"{ROOT}/api/v1/session")
    assert browser.get(f"{ROOT}/signed-in").json() is False
    opened = browser.get(f"{ROOT}{link['path']}", follow_redirects=False)
    assert opened.headers["location"] == f"{ROOT}/studies/{study_id}"
    assert {f"{ROOT}/studies/{study_id}", f"{ROOT}{STUDIES}/{study_id}"} == {
        cookie.path for cookie in browser.cookies.jar if cookie.name == "bln_search_share"
    }
    assert browser.get(opened.headers["location"]).status_code == 200


def test_api_answers_under_the_path(world, browser):
    sign_in(browser, world)
    submitted = browser.post(f"{ROOT}{STUDIES}", json=body())
    assert submitted.headers["location"].startswith(f"{ROOT}{STUDIES}/")
    assert browser.get(submitted.headers["location"]).json()["id"] == submitted.json()["id"]
    assert browser.get(f"{ROOT}/healthz").status_code == 200
    assert make_app(world.context).openapi()["servers"][0]["url"] == ROOT


def test_results_may_be_large_at_both_addresses(home):
    settings = Settings(home=home, root_path="bln")
    limits = _make_connection_limits(settings)
    for path in (RESULTS_PATH, f"{ROOT}{RESULTS_PATH}?x=1"):
        assert limits.find_body_limit(path.encode()) == settings.largest_results


@pytest.mark.parametrize(("given", "path"), [("", ""), ("/", ""), ("bln/", "/bln"), ("/a/b.c", "/a/b.c")])
def test_path_has_one_form(home, given, path):
    assert Settings(home=home, root_path=given).root_path == path


@pytest.mark.parametrize("given", ["/a b", "/a?b", "/..", "http://host/a", "/ä", "/a%20b"])
def test_path_that_no_address_has_is_refused(home, given):
    with pytest.raises(ValueError, match="write it as in /bln"):
        Settings(home=home, root_path=given)
