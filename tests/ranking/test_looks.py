"""Looks share the error rate."""

from __future__ import annotations

import pytest

from bln_search.ranking.looks import level_of_look
from bln_search.ranking.statistics.intervals import ALPHA


@pytest.mark.parametrize("planned", [False, True])
def test_all_looks_together_spend_at_most_the_error_rate(planned):
    levels = [level_of_look(earlier, planned=planned) for earlier in range(60)]
    assert sum(levels) <= ALPHA * (1 + 1e-12)
    assert levels == sorted(levels, reverse=True)
    assert levels[0] >= ALPHA / 2
