"""Licence and citation: the same in the metadata of the packages, the repository and the documentation."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml

from bln_search.core.version import VERSION
from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LICENCE = PROJECT["project"]["license"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_metadata_name_the_licence_as_pep_639_says():
    """Setuptools of the build system knows the expression, and refuses a classifier beside it."""
    assert LICENCE == "Apache-2.0"
    assert PROJECT["project"]["license-files"] == ["LICENSE"]
    assert not [name for name in PROJECT["project"]["classifiers"] if name.startswith("License")]
    (bound,) = re.findall(r"setuptools>=(\d+)", " ".join(PROJECT["build-system"]["requires"]))
    assert int(bound) >= 77


def test_licence_file_is_the_complete_standard_text():
    text = read("LICENSE")
    assert re.search(r"Apache License\n\s+Version 2\.0, January 2004\n", text)
    sections = re.findall(r"^   (\d)\. [A-Z][\w ,()]+\.", text, re.MULTILINE)
    assert sections == list("123456789")


@pytest.mark.parametrize("name", ["README.md", "docs/faq.md", "docs/decisions.md", "Dockerfile", "CITATION.cff"])
def test_every_place_that_names_a_licence_names_this_one(name):
    assert LICENCE in read(name)


def test_images_are_built_with_every_file_that_the_metadata_name():
    """Their build context has an allow list, and setuptools reads these files."""
    needed = {PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    (copied,) = re.findall(r"^COPY (pyproject\.toml [^\n]*?) \./$", read("Dockerfile"), re.MULTILINE)
    allowed = {line.removeprefix("!") for line in read(".dockerignore").splitlines()}
    assert needed <= set(copied.split()) & allowed


def test_citation_has_the_keys_that_its_format_requires():
    """Citation File Format 1.2.0; the authors are an entity, and no person is named."""
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "type", "license", "version", "date-released"} <= CITATION.keys()
    assert CITATION["type"] == "software"
    assert CITATION["license"] == LICENCE
    assert CITATION["authors"] == PROJECT["project"]["authors"] == [{"name": "The bln-search authors"}]


def test_citation_names_the_newest_release():
    released = re.findall(r"^## \[(\d[^\]]*)\] - (\S+)$", read("CHANGELOG.md"), re.MULTILINE)
    assert (CITATION["version"], CITATION["date-released"]) == released[0]
    assert CITATION["version"] == VERSION
