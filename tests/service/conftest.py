"""A service with three accounts in this process."""

from __future__ import annotations

import pytest

from tests.support.service_world import World


@pytest.fixture
def world(tmp_path):
    service_world = World(tmp_path / "service")
    yield service_world
    service_world.close()


@pytest.fixture
def client(world):
    """Ada, who may change things."""
    return world.client()
