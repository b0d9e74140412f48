"""Links lead somewhere, pages build, nothing comes from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
import yaml

from tests.conftest import ROOT
from tests.docs.pages import DOCS, PAGES, README, TEXTS, anchors, code_words, prose

CONFIGURATION = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def in_navigation(entry):
    if isinstance(entry, str):
        return [entry]
    return [page for inner in (entry if isinstance(entry, list) else entry.values()) for page in in_navigation(inner)]


@pytest.mark.parametrize("name", TEXTS)
def test_every_link_and_anchor_exists(name):
    page = TEXTS[name]
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", prose(page))):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        assert file.is_file(), f"{name}: {target}"
        if anchor:
            assert anchor in anchors(file), f"{name}: {target}"


@pytest.mark.parametrize("name", TEXTS)
def test_every_file_named_exists(name):
    """Between backticks, from the top of the repository or from a package."""
    for word in code_words(TEXTS[name]):
        if re.fullmatch(r"\w[\w/]*/\w+\.(py|md|yaml|json)", word) and "NAME" not in word:
            assert any((top / word).exists() for top in (ROOT, ROOT / "bln_search")), f"{name}: {word}"


def test_every_picture_is_used_and_has_words():
    used = {found for page in PAGES.values() for found in re.findall(r"!\[[^\]]+\]\(images/([^)]+)\)", prose(page))}
    assert {file.name for file in (DOCS / "images").iterdir()} <= used


def test_drawings_describe_themselves_and_fetch_nothing():
    for file in (DOCS / "images").glob("*.svg"):
        tags = [element.tag.rpartition("}")[2] for element in ET.fromstring(file.read_text()).iter()]
        assert tags.count("title") == tags.count("desc") == 1, file
        assert not {"script", "image", "use", "style"} & set(tags), file


def test_every_page_is_in_the_navigation_once_and_in_the_index():
    assert sorted(in_navigation(CONFIGURATION["nav"])) == sorted(PAGES)
    assert set(re.findall(r"\]\((\w+\.md)", prose(PAGES["index.md"]))) | {"index.md"} >= set(PAGES)
    assert "](docs/index.md)" in prose(README)


@pytest.mark.slow
def test_pages_build_and_load_nothing_from_other_hosts(tmp_path):
    pytest.importorskip("material", reason="make installs it")
    pytest.importorskip("mkdocstrings_handlers", reason="make installs it")
    call = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    process = subprocess.run(
        call, capture_output=True, text=True, timeout=240, cwd=ROOT, env={**os.environ, "NO_COLOR": "1"}
    )
    assert process.returncode == 0, process.stdout + process.stderr
    built = sorted((tmp_path / "site").glob("*.html"))
    assert {page.name for page in built} >= {f"{name.removesuffix('.md')}.html" for name in PAGES}
    for page in built:
        html = page.read_text()
        assert 'class="mermaid"' not in html, "the theme fetches what draws such diagrams"
        assert not re.search(r'<(script|img|iframe|source)[^>]*\ssrc="?(https?:)?//', html), page.name
        assert not re.search(r'<link[^>]*rel="?(stylesheet|preconnect|preload)"?[^>]*href="?(https?:)?//', html), (
            page.name
        )
    texts = {page.stem: page.read_text() for page in built}
    assert "<code>--ray-address</code>" in texts["cli"]
    assert "<code>BLN_SEARCH_HOME</code>" in texts["cli"]
    assert 'href="#leaderboardpage"' in texts["rest_api"]
    assert 'id="bln_search.api.convert.convert"' in texts["python_api"]
    assert not list((tmp_path / "site").glob("*.py"))
