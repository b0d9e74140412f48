"""The selection bias against simulated studies and closed forms."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from bench.selection_bias import AHEAD, EFFECTS, EQUAL, LOSSES, SEEDS, bias_of_table, reported_bias, true_bias
from bln_search.ranking.paired import OutcomeTable
from tests.ranking.tables import draw
from tests.support.tiers import latin, part, thinned

CASES = [(seeds, effects) for seeds in SEEDS for effects in EFFECTS if seeds > 1 or effects.seed == 0]
"""With one network the seed is no chance: the bias is that of other examples."""

SIMULATED = part(CASES, lambda *case: CASES.index(case) % 8 == 0)


@cache
def said_and_true(rows, seeds, effects):
    estimate = reported_bias(LOSSES[rows], seeds, effects, studies=300, draws=200)
    return estimate.mean, true_bias(LOSSES[rows], seeds, effects, studies=20_000).mean


def estimate_selection_bias(table, draws=1000, random=0):
    return bias_of_table(table, draws, random)


def table_of(losses):
    losses = np.asarray(losses, np.float32)
    return OutcomeTable(losses, losses < 0)


@pytest.mark.parametrize(("seeds", "effects"), thinned(SIMULATED, 3))
def test_estimate_is_unbiased_for_equal_rows(seeds, effects):
    estimate, is_true = said_and_true(EQUAL, seeds, effects)
    assert 0.9 < estimate / is_true < 1.1


@pytest.mark.parametrize(("seeds", "effects"), thinned(SIMULATED, 3, start=1))
def test_estimate_is_unbiased_for_groups_of_equal_rows(seeds, effects):
    estimate, is_true = said_and_true("in four groups", seeds, effects)
    assert 0.85 < estimate / is_true < 1.15


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "effects"), SIMULATED)
def test_estimate_is_slightly_too_large_for_close_rows(seeds, effects):
    estimate, is_true = said_and_true(AHEAD, seeds, effects)
    of_equal_rows = said_and_true(EQUAL, seeds, effects)[1]
    assert -0.05 * of_equal_rows < estimate - is_true < 0.4 * of_equal_rows


@pytest.mark.parametrize(("seeds", "effects"), thinned(SIMULATED, 3, start=2))
def test_row_far_ahead_has_no_bias(seeds, effects):
    estimate, is_true = said_and_true("one 0.5 ahead", seeds, effects)
    assert (estimate, is_true) == pytest.approx((0, 0), abs=1e-3)


@pytest.mark.parametrize(("difference", "seeds"), thinned(latin([0.0, 0.5, 1.0, 3.0], [2, 3, 4]), 2))
def test_two_rows_have_the_closed_form_expectation(seeds, difference):
    """s·φ(d/√2s), s the standard error of the difference, d its true value; s·φ(d/s) is the true bias."""
    rng = np.random.default_rng(seeds)
    means = rng.normal(size=(1500, seeds, 2, 1)) + np.array([0.0, difference])[:, None]
    estimate = [
        estimate_selection_bias(table_of(np.repeat(seed_means, 2, axis=2)), draws=100, random=index)
        for index, seed_means in enumerate(means)
    ]
    error = np.sqrt(2 / seeds)
    assert np.mean(estimate) == pytest.approx(error * stats.norm.pdf(difference / (np.sqrt(2) * error)), abs=0.03)


@given(
    arrays.arrays(
        np.float32,
        st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(2, 6)),
        elements=st.floats(-10, 10, width=32),
    )
)
def test_estimate_is_finite_and_never_negative(losses):
    bias = estimate_selection_bias(table_of(losses), draws=20)
    assert np.isfinite(bias)
    assert bias >= 0


@pytest.mark.parametrize("seeds", [1, 5])
def test_one_row_has_no_selection_bias(seeds):
    assert estimate_selection_bias(draw(np.random.default_rng(0), seeds=seeds, rows=1)) == 0


def test_common_losses_of_examples_do_not_matter():
    losses = draw(np.random.default_rng(3), seeds=3, rows=4, of_seed=0.2).losses.astype(np.float64)
    cost = 100 * np.random.default_rng(4).normal(size=losses.shape[2])
    assert estimate_selection_bias(table_of(losses + cost)) == pytest.approx(
        estimate_selection_bias(table_of(losses)), rel=1e-3
    )


@pytest.mark.parametrize("seeds", [1, 3])
def test_row_with_huge_losses_changes_nothing(seeds):
    losses = draw(np.random.default_rng(5), seeds=seeds, rows=4).losses
    enormous = 1e15 * np.random.default_rng(6).exponential(size=(seeds, 1, losses.shape[2]))
    assert estimate_selection_bias(table_of(np.concatenate([losses, enormous], axis=1))) == estimate_selection_bias(
        table_of(losses)
    )


def test_estimate_is_reproducible_and_converged():
    outcome_table = draw(np.random.default_rng(7), seeds=3, rows=8, of_seed=0.3)
    first, repeated, other_random = (estimate_selection_bias(outcome_table, random=random) for random in (0, 0, 1))
    assert first == repeated
    assert other_random == pytest.approx(first, rel=0.1)
