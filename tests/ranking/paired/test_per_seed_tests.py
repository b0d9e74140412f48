"""McNemar against statsmodels, Wilcoxon and the sign-flip test against SciPy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as of_statsmodels

from bln_search.ranking.paired import OutcomeTable
from bln_search.ranking.paired.per_seed_tests import (
    FLIPS,
    mcnemar_p_values,
    permutation_p_values,
    run_per_seed_tests,
    wilcoxon_p_values,
)
from tests.ranking.tables import draw


def table(losses, correct=None):
    losses = np.asarray(losses, np.float32)
    return OutcomeTable(losses, losses < 0.5 if correct is None else np.asarray(correct, bool))


@st.composite
def tables(draw_from, most_examples=9, steps=4):
    """Small tables of losses in eighths, so that many are equal and differences are exact."""
    shape = draw_from(st.tuples(st.integers(1, 2), st.integers(2, 3), st.integers(2, most_examples)))
    size = int(np.prod(shape))
    losses = draw_from(st.lists(st.integers(0, steps), min_size=size, max_size=size))
    correct = draw_from(st.lists(st.booleans(), min_size=size, max_size=size))
    return table(np.reshape(losses, shape) / 8, np.reshape(correct, shape))


def pairwise(outcome_table, values):
    """p of every seed and pair by a function of two rows, (S, P)."""
    first, second = outcome_table.row_pairs
    return np.array(
        [
            [test(seed_values[row], seed_values[other_row]) for row, other_row in zip(first, second, strict=True)]
            for seed_values, test in values
        ]
    )


def statsmodels_mcnemar(first, second):
    counts = [[np.sum(first & second), np.sum(first & ~second)], [np.sum(~first & second), np.sum(~first & ~second)]]
    return of_statsmodels(counts, exact=True).pvalue


def scipy_wilcoxon(first, second, method="auto"):
    differences = (first - second).astype(np.float64)
    return stats.wilcoxon(differences, method=method).pvalue if differences.any() else 1.0


def enumerated(first, second):
    """Share of all sign flips whose mean difference is at least as far from zero."""
    differences = first.astype(np.float64) - second
    sums = np.array(list(product([-1, 1], repeat=len(differences)))) @ differences
    return np.mean(np.abs(sums) >= abs(differences.sum()) - 1e-9)


@given(tables())
def test_mcnemar_equals_statsmodels_on_small_tables(outcome_table):
    expected = pairwise(outcome_table, [(seed_correct, statsmodels_mcnemar) for seed_correct in outcome_table.correct])
    assert mcnemar_p_values(outcome_table) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("examples", [500, 10_000])
def test_mcnemar_equals_statsmodels_on_many_examples(examples):
    outcome_table = draw(np.random.default_rng(0), seeds=2, rows=4, examples=examples, noise=0.3, difference=0.02)
    expected = pairwise(outcome_table, [(seed_correct, statsmodels_mcnemar) for seed_correct in outcome_table.correct])
    assert mcnemar_p_values(outcome_table) == pytest.approx(expected, rel=1e-9)
    assert expected.min() < 0.01 < expected.max()


@pytest.mark.slow
@settings(max_examples=10)
@given(tables())
def test_wilcoxon_equals_scipy_on_few_examples(outcome_table):
    expected = pairwise(outcome_table, [(seed_losses, scipy_wilcoxon) for seed_losses in outcome_table.losses])
    assert wilcoxon_p_values(outcome_table) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("examples", [12, 25, 50])
def test_wilcoxon_is_exact_up_to_fifty_examples(examples):
    outcome_table = draw(np.random.default_rng(1), rows=3, examples=examples, difference=0.3)
    expected = pairwise(
        outcome_table,
        [
            (seed_losses, lambda first_losses, second_losses: scipy_wilcoxon(first_losses, second_losses, "exact"))
            for seed_losses in outcome_table.losses
        ],
    )
    assert wilcoxon_p_values(outcome_table) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("examples", [51, 60, 1_000, 10_000])
@pytest.mark.parametrize("steps", [None, 4, 16])
def test_wilcoxon_of_many_examples_equals_scipy(examples, steps):
    """With ties and zero differences."""
    outcome_table = draw(np.random.default_rng(2), seeds=2, rows=3, examples=examples, difference=0.03)
    if steps:
        outcome_table = table(np.round(outcome_table.losses * steps) / steps)
        assert (outcome_table.losses[:, 0] == outcome_table.losses[:, 1]).any()
    expected = pairwise(
        outcome_table,
        [
            (seed_losses, lambda first_losses, second_losses: scipy_wilcoxon(first_losses, second_losses, "approx"))
            for seed_losses in outcome_table.losses
        ],
    )
    assert wilcoxon_p_values(outcome_table) == pytest.approx(expected, rel=1e-6)


@given(tables(most_examples=60, steps=2), st.integers(51, 60))
def test_wilcoxon_of_mostly_equal_losses_equals_scipy(outcome_table, examples):
    outcome_table = OutcomeTable(
        np.resize(outcome_table.losses, (1, 2, examples)), np.resize(outcome_table.correct, (1, 2, examples))
    )
    expected = pairwise(
        outcome_table,
        [
            (seed_losses, lambda first_losses, second_losses: scipy_wilcoxon(first_losses, second_losses, "approx"))
            for seed_losses in outcome_table.losses
        ],
    )
    assert wilcoxon_p_values(outcome_table) == pytest.approx(expected, rel=1e-6)


@given(tables())
def test_sign_flips_agree_with_complete_enumeration(outcome_table):
    """Within five standard deviations of so many random flips."""
    expected = pairwise(outcome_table, [(seed_losses, enumerated) for seed_losses in outcome_table.losses])
    error = np.sqrt(expected * (1 - expected) / FLIPS)
    assert np.all(np.abs(permutation_p_values(outcome_table) - expected) <= 5 * error + 2 / FLIPS)


def test_sign_flips_agree_with_exact_scipy():
    outcome_table = draw(np.random.default_rng(3), seeds=4, rows=3, examples=9, difference=0.5)
    expected = pairwise(outcome_table, [(seed_losses, scipy_permutation) for seed_losses in outcome_table.losses])
    assert expected == pytest.approx(
        pairwise(outcome_table, [(seed_losses, enumerated) for seed_losses in outcome_table.losses])
    )
    assert np.abs(permutation_p_values(outcome_table) - expected).max() <= 5 * np.sqrt(0.25 / FLIPS)


@pytest.mark.parametrize("examples", [40, 300])
def test_sign_flips_agree_with_resampled_scipy(examples):
    outcome_table = draw(
        np.random.default_rng(4), seeds=2, rows=3, examples=examples, difference=2.5 / np.sqrt(examples)
    )
    expected = pairwise(outcome_table, [(seed_losses, scipy_permutation) for seed_losses in outcome_table.losses])
    error = np.sqrt(2 * expected * (1 - expected) / FLIPS)
    assert np.all(np.abs(permutation_p_values(outcome_table) - expected) <= 5 * error + 2 / FLIPS)
    assert expected.min() < 0.05 < expected.max()


def scipy_permutation(first, second):
    return stats.permutation_test(
        (first.astype(np.float64), second.astype(np.float64)),
        lambda first_losses, second_losses, axis: np.mean(first_losses - second_losses, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=FLIPS,
        rng=np.random.default_rng(0),
    ).pvalue


def test_smallest_p_is_one_over_the_number_of_flips():
    outcome_table = table(np.stack([np.zeros(40), np.ones(40)])[None])
    assert permutation_p_values(outcome_table) == pytest.approx(1 / (1 + FLIPS))
    assert permutation_p_values(outcome_table, flips=99) == pytest.approx(0.01)


def test_flips_are_reproducible_by_seed():
    outcome_table = draw(np.random.default_rng(5), rows=3)
    assert np.array_equal(permutation_p_values(outcome_table, random=1), permutation_p_values(outcome_table, random=1))
    assert not np.array_equal(
        permutation_p_values(outcome_table, random=1), permutation_p_values(outcome_table, random=2)
    )


@pytest.mark.parametrize("examples", [2, 20, 60, 1_000])
def test_identical_rows_have_p_one(examples):
    losses = np.random.default_rng(6).normal(size=(3, 1, examples))
    p_values = run_per_seed_tests(table(np.repeat(losses, 3, axis=1)))
    for p in (p_values.mcnemar, p_values.wilcoxon, p_values.permutation):
        assert p.shape == (3, 3)
        assert np.all(p == 1)


@pytest.mark.parametrize("examples", [2, 20, 60])
def test_single_differing_example_is_not_significant(examples):
    losses = np.random.default_rng(7).uniform(size=(1, 2, examples))
    losses[:, 1] = losses[:, 0]
    losses[0, 0, 0], losses[0, 1, 0] = 0.1, 0.9
    p_values = run_per_seed_tests(table(losses))
    assert (p_values.mcnemar, p_values.permutation) == (1.0, 1.0)
    assert p_values.wilcoxon > 0.3


def test_two_examples_are_never_significant():
    p_values = run_per_seed_tests(table([[[0.0, 0.0], [9.0, 9.0]]]))
    assert (p_values.mcnemar, p_values.wilcoxon) == (0.5, 0.5)
    assert p_values.permutation == pytest.approx(0.5, abs=0.05)


def test_one_row_has_no_pairs():
    p_values = run_per_seed_tests(table(np.zeros((3, 1, 60))))
    assert p_values.mcnemar.shape == p_values.wilcoxon.shape == p_values.permutation.shape == (3, 0)


@pytest.mark.parametrize("far", [1e4, 1e8])
@pytest.mark.parametrize("test", [mcnemar_p_values, wilcoxon_p_values, permutation_p_values])
def test_distant_row_does_not_change_other_pairs(test, far):
    outcome_table = draw(np.random.default_rng(0), seeds=2, rows=3, difference=0.5)
    losses = np.append(outcome_table.losses, far * (1 + outcome_table.losses[:, :1] ** 2), axis=1)
    beside = OutcomeTable(losses, losses < 0)
    near_pairs = beside.row_pairs[1] < 3
    np.testing.assert_array_equal(test(beside)[:, near_pairs], test(outcome_table))
