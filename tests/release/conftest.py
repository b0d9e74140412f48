"""The packages, built once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.release.environments import build


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Both packages, and a wheel made without the source distribution; `make release` keeps the former."""
    released = os.environ.get("RELEASE_DIST")
    return build(tmp_path_factory.mktemp("packages"), Path(released) if released else None)


@pytest.fixture(scope="session")
def packages(built):
    """The folder with wheel and source distribution."""
    return built.folder
