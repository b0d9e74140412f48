"""Version, licence and supported Pythons are the same in the metadata of the packages, the program and the pages."""

from __future__ import annotations

import json
import re
import tomllib

import pytest
import yaml
from fastapi.testclient import TestClient

import bln_search
from bln_search.core.version import VERSION
from bln_search.settings import Settings
from bln_search.storage.ledger import open_and_upgrade_ledger
from service.app import make_app, make_app_context
from service.export_openapi import openapi_document_as_json
from tests.conftest import ROOT
from tests.docs.pages import anchors
from tests.end_to_end.commands import call
from tests.release import matrix


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


PROJECT = tomllib.loads(read("pyproject.toml"))
LICENCE = PROJECT["project"]["license"]
CITATION = yaml.safe_load(read("CITATION.cff"))


def test_version_is_that_of_the_module():
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", VERSION)
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "bln_search.core.version.VERSION"}
    papers = tomllib.loads(read("papers/pyproject.toml"))["project"]
    assert (papers["version"], papers["dependencies"]) == (VERSION, [f"bln-search=={VERSION}"])
    assert bln_search.__version__ == VERSION
    assert call("--version", check=0).stdout == f"bln-search {VERSION}\n"
    for document in (read("openapi.json"), openapi_document_as_json()):
        assert json.loads(document)["info"]["version"] == VERSION


def test_service_has_the_version(home):
    settings = Settings(home=home, hosts=("testserver",))
    ledger = open_and_upgrade_ledger(settings.database_url)
    with TestClient(make_app(make_app_context(settings, ledger))) as client:
        assert client.get("/version").json()["bln_search"] == VERSION
        assert client.get("/api/v1/openapi.json").json()["info"]["version"] == VERSION
        assert f'version="{VERSION}"' in client.get("/metrics").text
    ledger.close()


def test_changelog_and_citation_have_the_version():
    """The newest heading: that version with its day, or what comes after the newest version that has one."""
    headings = re.findall(r"^## \[([^\]]+)\](?: - (\d{4}-\d{2}-\d{2}))?$", read("CHANGELOG.md"), re.MULTILINE)
    assert headings[0][0] in (VERSION, "Unreleased")
    released = [heading for heading in headings if heading[0] != "Unreleased"]
    assert all(day for _, day in released)
    assert (CITATION["version"], CITATION["date-released"]) == released[0] == (VERSION, released[0][1])


def test_citation_has_the_keys_that_its_format_requires():
    """Citation File Format 1.2.0; the authors are an entity, and no person is named."""
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "type", "license", "version", "date-released"} <= CITATION.keys()
    assert CITATION["license"] == LICENCE
    assert CITATION["authors"] == PROJECT["project"]["authors"] == [{"name": "The bln-search authors"}]


def test_metadata_name_the_licence_as_pep_639_says():
    """Setuptools of the build system knows the expression, and refuses a classifier beside it."""
    assert LICENCE == "Apache-2.0"
    assert not [name for name in PROJECT["project"]["classifiers"] if name.startswith("License")]
    (bound,) = re.findall(r"setuptools>=(\d+)", " ".join(PROJECT["build-system"]["requires"]))
    assert int(bound) >= 77
    text = read("LICENSE")
    assert re.search(r"Apache License\n\s+Version 2\.0, January 2004\n", text)
    assert re.findall(r"^   (\d)\. [A-Z][\w ,()]+\.", text, re.MULTILINE) == list("123456789")


@pytest.mark.parametrize("name", ["README.md", "docs/faq.md", "docs/decisions.md", "Dockerfile"])
def test_every_place_that_names_a_licence_names_this_one(name):
    assert LICENCE in read(name)


def test_images_are_built_with_every_file_that_the_metadata_name():
    """Their build context has an allow list, and setuptools reads these files."""
    needed = {PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    (copied,) = re.findall(r"^COPY (pyproject\.toml [^\n]*?) \./$", read("Dockerfile"), re.MULTILINE)
    allowed = {line.removeprefix("!") for line in read(".dockerignore").splitlines()}
    assert needed <= set(copied.split()) & allowed


def test_supported_versions_agree_in_metadata_and_documentation():
    supported = matrix.supported_versions()
    assert PROJECT["project"]["requires-python"] == f">={supported[0]}"
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{supported[0].replace('.', '')}"
    assert "which-versions-are-supported" in anchors(ROOT / "docs" / "faq.md")
    section = read("docs/faq.md").split("### Which versions are supported?\n")[1].split("\n#")[0]
    assert re.findall(r"3\.\d+", section) == supported
    (bound,) = re.findall(r'"torch>=([\d.]+)"', str(PROJECT).replace("'", '"'))
    assert f"torch {bound} or newer" in section
