"""The number of repetitions of simulations."""

from __future__ import annotations

import os

import pytest

FULL = int(os.environ.get("BLN_SEARCH_REPETITIONS", "300"))
"""Repetitions of every simulation in `make test-slow`: 1000 before a release."""

QUICK = 60
"""Those in `make test`: the same draws each time, and a wider band around the rate that is promised."""


@pytest.fixture(params=[QUICK, pytest.param(FULL, marks=pytest.mark.slow)])
def repetitions(request):
    """Repetitions of a simulation."""
    return request.param
