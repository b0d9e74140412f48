"""The documentation under /docs/, with a policy for each page."""

from __future__ import annotations

import base64
import hashlib

import pytest
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.routing import Mount

from docs.hooks import add_anchors
from service.pages.rendering import documentation
from service.pages.rendering.documentation import DocumentationFiles
from tests.support.service_world import HTML_HEADERS

SCRIPT = 'document.title = "x"'


@pytest.fixture
def client(tmp_path):
    (tmp_path / "index.html").write_text(
        f'<script>{SCRIPT}</script><script id="c" type="application/json">{{}}</script><script src="own.js"></script>'
    )
    (tmp_path / "404.html").write_text("nothing here")
    (tmp_path / "own.js").write_text("1")
    return TestClient(Starlette(routes=[Mount("/docs", DocumentationFiles(tmp_path))]))


def policy(response):
    return dict(part.split(" ", 1) for part in response.headers["content-security-policy"].split("; "))


def test_page_allows_its_own_inline_scripts_only(client):
    response = client.get("/docs/")
    assert response.status_code == 200
    sources = policy(response)["script-src"].split()
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert sources[0] == "'self'"
    assert f"'sha256-{digest}'" in sources
    assert "'unsafe-inline'" not in sources
    assert policy(response)["default-src"] == "'self'"


def test_changed_page_has_a_new_policy(client, tmp_path):
    before = policy(client.get("/docs/index.html"))["script-src"]
    (tmp_path / "index.html").write_text("<script>other()</script>")
    assert policy(client.get("/docs/index.html"))["script-src"] != before


def test_missing_page_of_the_documentation_is_404(client):
    response = client.get("/docs/none.html")
    assert (response.status_code, response.text) == (404, "nothing here")
    assert policy(response)["script-src"] == "'self'"
    assert client.get("/docs/../pyproject.toml").status_code == 404


def test_texts_are_shown_instead_of_saved(client, tmp_path):
    (tmp_path / "index.md").write_text("# Head")
    response = client.get("/docs/index.md")
    assert (response.text, response.headers["content-type"]) == ("# Head", "text/plain; charset=utf-8")


@pytest.mark.parametrize(("start", "suffix"), [("index.html", ".html"), ("index.md", ".md")])
def test_pages_link_the_documentation_that_there_is(world, monkeypatch, tmp_path, start, suffix):
    monkeypatch.setattr(documentation, "find_documentation_start", lambda: tmp_path / start)
    ada = world.client(**HTML_HEADERS)
    footer = ada.get("/studies").text.partition("<footer")[2]
    assert f'href="/docs/index{suffix}"' in footer
    assert f'href="/docs/configurations{suffix}"' in ada.get("/configurations").text
    assert f'href="/docs/service{suffix}#access"' in ada.get("/tokens").text


def test_without_documentation_nothing_leads_to_it(world, monkeypatch):
    monkeypatch.setattr(documentation, "find_documentation_start", lambda: None)
    ada = world.client(**HTML_HEADERS)
    assert not [path for path in ("/studies", "/configurations", "/tokens") if "/docs/" in ada.get(path).text]


def test_a_copy_of_the_repository_has_documentation():
    documentation.find_documentation_start.cache_clear()
    start = documentation.find_documentation_start()
    assert start.suffix in (".html", ".md")
    assert start.is_file()


def test_terms_of_the_glossary_have_anchors():
    text = "**Arm**: one.\n\n**Population estimate** (x): **two**.\n\n**Arm** again.\n"
    assert add_anchors(text) == (
        "**Arm**{ #arm }: one.\n\n**Population estimate**{ #population-estimate } (x): **two**.\n\n**Arm** again.\n"
    )
