"""The browser of an admin."""

from __future__ import annotations

import pytest

from bln_search.core.enums import Scope
from tests.support.service_world import HTML_HEADERS


@pytest.fixture
def root(world):
    return world.client("root", Scope.ADMIN, **HTML_HEADERS)
