"""Which responses are compressed: pages, scripts and charts, not those of the API."""

from __future__ import annotations

import pytest

from bln_search.core.enums import Scope
from tests.support.service_world import HTML_HEADERS


@pytest.fixture
def paths(world):
    number = world.complete()
    return {
        "compressed": [
            *("/studies", f"/studies/{number}/leaderboard", f"/studies/{number}/charts/curves.json"),
            *("/static/service.css", "/static/study.js"),
        ],
        "plain": (f"/api/v1/studies/{number}/leaderboard", "/healthz"),
    }


@pytest.mark.parametrize("kind", ["compressed", "plain"])
def test_pages_are_compressed_and_the_api_is_not(world, paths, kind):
    root = world.client("root", Scope.ADMIN, **HTML_HEADERS)
    for path in paths[kind]:
        response = root.get(path, headers={"Accept-Encoding": "gzip"})
        assert response.status_code == 200, path
        assert (response.headers.get("content-encoding") == "gzip") == (kind == "compressed"), path


def test_a_client_without_gzip_gets_the_same_page(world, paths):
    root = world.client("root", Scope.ADMIN, **HTML_HEADERS)
    path = paths["compressed"][1]
    plain = root.get(path, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    compressed = root.get(path, headers={"Accept-Encoding": "gzip"})
    assert compressed.text == plain.text
    assert int(compressed.headers["content-length"]) < len(plain.content) / 4
