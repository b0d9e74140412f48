"""Tests of one group run one after another in one process: Ray clusters, browsers and kills bear no company."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("held_together")
def test_a_group_is_seen_by_who_hands_tests_out(request):
    """Some versions of pytest and pytest-xdist pass it by in silence."""
    if not hasattr(request.config, "workerinput"):
        pytest.skip("tests run in one process")
    assert request.node.nodeid.endswith("@held_together"), "take the versions of constraints.txt"
