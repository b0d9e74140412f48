"""Looks share the error rate."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.ranking.looks import LEVEL_AFTER_NEWCOMERS, level_of_look, level_of_newcomer
from bln_search.ranking.statistics.intervals import ALPHA


@pytest.mark.parametrize("planned", [False, True])
def test_all_looks_together_spend_at_most_the_error_rate(planned):
    levels = [level_of_look(earlier, planned=planned) for earlier in range(60)]
    assert sum(levels) <= ALPHA * (1 + 1e-12)
    assert levels == sorted(levels, reverse=True)
    assert levels[0] >= ALPHA / 2


def test_looks_at_any_number_of_rows_and_seeds_spend_what_the_answer_leaves():
    levels = np.array([[level_of_newcomer(rows, seeds) for seeds in range(3, 203)] for rows in range(1, 2001)])
    spent = levels.sum() + LEVEL_AFTER_NEWCOMERS
    assert 0.98 * ALPHA < spent <= ALPHA
    assert (np.diff(levels, axis=0) < 0).all()
    assert (np.diff(levels, axis=1) < 0).all()
