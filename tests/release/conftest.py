"""The packages, built once."""

from __future__ import annotations

import pytest

from tests.release.environments import build


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """The folder with wheel and source distribution."""
    return build(tmp_path_factory.mktemp("packages"))
