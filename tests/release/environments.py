"""Wheel and source distribution of this tree, and empty environments outside of it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.conftest import ROOT

TREE = ("bln_search", "service", "papers", "studies", "tests", "bench", "docs")
FILES = (
    *("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CITATION.cff", "CHANGELOG.md", "constraints.txt"),
    "Makefile",
)
OF_ANOTHER_TORCH = ("cuda-", "nvidia-", "triton")
"""Beginnings of names of packages that only builds of torch for GPUs install, in versions that they name."""

_OFFLINE = (
    *("connection error", "connection broken", "max retries exceeded", "newconnectionerror", "timed out"),
    "temporary failure in name resolution",
)
"""What pip says where nobody answers."""


@dataclass(frozen=True)
class Packages:
    """Folders with packages of this tree.

    Attributes:
        folder: Source distribution, and the wheel that was built from it.
        direct: The wheel that was built from the tree.
    """

    folder: Path
    direct: Path


def build(folder: Path, released: Path | None = None) -> Packages:
    """Build the packages from a copy of the tree.

    Args:
        folder: For the copy and the packages.
        released: For source distribution and wheel, if they are kept.
    """
    for package in ("build", "setuptools"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not here: make installs it")
    copy = folder / "tree"
    for name in TREE:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    for name in FILES:
        shutil.copy(ROOT / name, copy)
    packages = Packages(released or folder / "dist", folder / "direct")
    call("-m", "build", "--no-isolation", "--outdir", packages.folder, copy, where=folder)
    call("-m", "build", "--no-isolation", "--wheel", "--outdir", packages.direct, copy, where=folder)
    call("-m", "build", "--no-isolation", "--outdir", packages.folder, copy / "papers", where=folder)
    return packages


def contents_of_wheel(wheel: Path) -> dict[str, bytes]:
    """Every file by its path."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def contents_of_source(source: Path) -> dict[str, bytes]:
    """Every file by its path, without the folder that all of them are in."""
    with tarfile.open(source) as archive:
        files = ((member, archive.extractfile(member)) for member in archive)
        return {member.name.partition("/")[2]: content.read() for member, content in files if content is not None}


def call(*words, where: Path, check: bool = True, seconds: float = 240) -> subprocess.CompletedProcess[str]:
    """This Python, knowing nothing of the tree it was called from."""
    return _run([sys.executable, *map(str, words)], where, check=check, seconds=seconds)


class Environment:
    """An environment without any package, in a folder outside the tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        call("-m", "venv", "--without-pip", folder / "venv", where=folder.parent)
        self.bin = folder / "venv" / "bin"

    def pip(self, *words, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Pip of this Python, at work in that environment."""
        about = ("--disable-pip-version-check", "--no-input", "--python", self.bin / "python")
        return call("-m", "pip", *about, *words, where=self.folder, check=check)

    def install(self, *packages: str | Path, **variables: str) -> None:
        """With the versions of the constraints; the test is passed over where pip has no index to ask."""
        quick = ("--quiet", "--no-compile", "--retries", 1, "--timeout", 30)
        probe = self.pip("install", "--dry-run", "--no-deps", *quick, "annotated-types", check=False)
        if probe.returncode:
            pytest.skip(f"pip has no index to ask: {_last_line(probe)}")
        command = [sys.executable, ROOT / ".ci" / "install.py", "--python", self.bin / "python", *packages]
        done = _run([*map(str, command)], self.folder, check=False, seconds=800, **variables)
        if done.returncode and any(sign in done.stderr.lower() for sign in _OFFLINE):
            pytest.skip(f"pip lost its index: {_last_line(done)}")
        assert done.returncode == 0, done.stderr

    def install_without_torch(self, wheel: Path) -> None:
        """What the image `web` installs."""
        required = call(ROOT / ".ci" / "image_requirements.py", "web", where=self.folder).stdout.splitlines()
        self.install(*required, TORCH_INDEX="")
        self.pip("install", "--quiet", "--no-deps", wheel)

    def import_names(self) -> set[str]:
        """Names of the modules and packages that are installed."""
        code = "import importlib.metadata as m, json; print(json.dumps(list(m.packages_distributions())))"
        return set(json.loads(self.python(code).stdout))

    def installed_versions(self) -> dict[str, str]:
        """Version by name of a package, in lower case with hyphens."""
        code = (
            "import importlib.metadata as m, json; print(json.dumps([(d.name, d.version) for d in m.distributions()]))"
        )
        return {canonicalize_name(name): version for name, version in json.loads(self.python(code).stdout)}

    def python(self, code: str) -> subprocess.CompletedProcess[str]:
        """Its Python."""
        return _run([str(self.bin / "python"), "-c", code], self.folder)

    def command(self, *words, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`bln-search` as it was installed, in a folder with nothing of the tree."""
        return _run([str(self.bin / "bln-search"), *map(str, words)], self.folder, check=check, **self.own())

    def own(self) -> dict[str, str]:
        """Its home and cache."""
        return {"BLN_SEARCH_HOME": str(self.home), "BLN_SEARCH_CACHE": str(self.folder / "cache")}


def pinned_versions() -> dict[str, str]:
    """Version by name, of `constraints.txt`."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pins}


def plain(**more: str) -> dict[str, str]:
    """The variables of this process without what would lead back to the tree or to settings of the tester."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BLN_SEARCH_"))}
    return {**kept, "COLUMNS": "200", "PYTHONDONTWRITEBYTECODE": "1", **more}


def _run(
    words: list[str], where: Path, *, check: bool = True, seconds: float = 240, **more: str
) -> subprocess.CompletedProcess[str]:
    process = subprocess.run(words, capture_output=True, text=True, timeout=seconds, cwd=where, env=plain(**more))
    assert not check or process.returncode == 0, process.stdout[-3000:] + process.stderr[-3000:]
    return process


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
