"""The version is defined in `bln_search/core/version.py` only; every other place agrees."""

from __future__ import annotations

import json
import re
import tomllib

from fastapi.testclient import TestClient

import bln_search
from bln_search.core.version import VERSION
from bln_search.settings import Settings
from bln_search.storage.ledger import open_and_upgrade_ledger
from service.app import make_app, make_app_context
from service.export_openapi import openapi_document_as_json
from tests.conftest import ROOT
from tests.end_to_end.commands import call

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_version_is_three_numbers():
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", VERSION)


def test_packages_read_the_version_from_the_module():
    assert "version" not in PROJECT["project"]
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "bln_search.core.version.VERSION"}


def test_the_package_of_the_papers_has_the_version():
    papers = tomllib.loads((ROOT / "papers" / "pyproject.toml").read_text(encoding="utf-8"))
    assert papers["project"]["version"] == VERSION


def test_library_and_command_have_the_version():
    assert bln_search.__version__ == VERSION
    assert call("--version", check=0).stdout == f"bln-search {VERSION}\n"


def test_service_has_the_version(home):
    settings = Settings(home=home, hosts=("testserver",))
    ledger = open_and_upgrade_ledger(settings.database_url)
    with TestClient(make_app(make_app_context(settings, ledger))) as client:
        assert client.get("/version").json()["bln_search"] == VERSION
        assert client.get("/api/v1/openapi.json").json()["info"]["version"] == VERSION
        assert f'version="{VERSION}"' in client.get("/metrics").text
    ledger.close()


def test_committed_api_description_has_the_version():
    assert json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))["info"]["version"] == VERSION
    assert json.loads(openapi_document_as_json())["info"]["version"] == VERSION


def test_changelog_has_a_heading_for_the_version():
    """The newest heading: that version with its day, or what comes after the newest version that has one."""
    headings = re.findall(r"^## \[([^\]]+)\](.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0][0] in (VERSION, "Unreleased")
    released = [(version, suffix) for version, suffix in headings if version != "Unreleased"]
    assert all(re.fullmatch(r" - \d{4}-\d{2}-\d{2}", suffix) for _, suffix in released)
