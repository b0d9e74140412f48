"""A trained network for all tests of checks."""

from __future__ import annotations

import copy

import pytest

from tests.api.check.networks import make_network, train


@pytest.fixture(scope="package")
def trained():
    """It is not changed; `network` is a copy."""
    return train(make_network())


@pytest.fixture
def network(trained):
    return copy.deepcopy(trained)
