"""`constraints.txt` has one version of everything that an extra installs, for pip and uv, with any build of torch."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT
from tests.release.environments import OF_ANOTHER_TORCH, pinned_versions

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LISTS = {"base": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}


def required_with_their_requirements(texts):
    """Requirements, and those of every installed package among them."""
    waiting, seen = [Requirement(text) for text in texts], {}
    while waiting:
        requirement = waiting.pop()
        if requirement.name == "bln-search":  # an extra that contains others
            waiting += [Requirement(text) for extra in requirement.extras for text in LISTS[extra]]
            continue
        if str(requirement) in seen or canonicalize_name(requirement.name).startswith(OF_ANOTHER_TORCH):
            continue
        seen[str(requirement)] = requirement
        for inner in map(Requirement, find_requirements(requirement.name)):
            extras = requirement.extras or {""}
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(inner)
    return list(seen.values())


def find_requirements(name):
    """Those of an installed package; none of another, as of the extra `zoo`."""
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []


@pytest.mark.parametrize("extra", LISTS)
def test_every_package_of_an_extra_has_a_version_that_the_others_accept(extra):
    pins = pinned_versions()
    required = required_with_their_requirements(LISTS[extra])
    assert required
    for requirement in required:
        version = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version, prereleases=True), requirement


def test_no_version_names_a_build():
    """The CPU build of torch is 2.0+cpu: the index decides, not this file."""
    assert not [version for version in pinned_versions().values() if "+" in version]
