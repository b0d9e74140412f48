"""The class-prior baseline."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from bln_search.core.class_prior import compute_class_prior_baseline


@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=20).filter(lambda counts: np.count_nonzero(counts) > 1))
def test_baseline_is_the_entropy_and_the_largest_share(counts):
    baseline = compute_class_prior_baseline(counts)
    assert baseline.loss == pytest.approx(entropy(counts), rel=1e-12)
    assert baseline.accuracy == max(counts) / sum(counts)


@pytest.mark.parametrize("counts", [[], [0], [7], [0, 7, 0]])
def test_no_baseline_for_fewer_than_two_classes(counts):
    assert compute_class_prior_baseline(counts) is None
