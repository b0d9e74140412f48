"""Races drop only candidates that paired tests show to be worse."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bln_search.ranking.statistics.intervals import ALPHA
from bln_search.search.layers.objective import BudgetedObjective
from bln_search.search.layers.racing import _mask_of_not_worse_candidates, _mini_batch_counts_of_tests, run_race
from tests.search.layers.tables import additive, plain_space, table_source


def drawn_means(candidates, batches, seed):
    draw = np.random.default_rng(seed)
    return (
        draw.normal(0, 1, batches) + draw.normal(0, 0.5, (candidates, batches)) + draw.normal(0, 0.4, (candidates, 1))
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("candidates", "batches"), [(2, 5), (10, 8), (40, 30)])
def test_candidates_are_kept_unless_significantly_worse(candidates, batches, seed):
    means = drawn_means(candidates, batches, seed)
    leader = int(np.argmin(means.sum(1)))
    is_kept = _mask_of_not_worse_candidates(means)
    for candidate, row in enumerate(means):
        if candidate == leader:
            assert is_kept[candidate]
            continue
        p = stats.ttest_rel(row, means[leader], alternative="greater").pvalue
        assert is_kept[candidate] == (p >= ALPHA / (candidates - 1)), candidate


def test_nan_losses_are_dropped_if_others_remain():
    means = drawn_means(4, 6, 0)
    means[2, 3] = np.inf
    assert not _mask_of_not_worse_candidates(means)[2]
    assert _mask_of_not_worse_candidates(np.full((3, 6), np.inf)).all()


def test_equal_candidates_are_kept_and_constantly_worse_dropped():
    means = np.stack([np.arange(6.0), np.arange(6.0), np.arange(6.0) + 1])
    assert _mask_of_not_worse_candidates(means).tolist() == [True, True, False]


def test_one_mini_batch_drops_no_finite_candidate():
    assert _mask_of_not_worse_candidates(np.array([[1.0], [2.0], [np.inf]])).tolist() == [True, True, False]


@pytest.mark.parametrize("batches", [1, 2, 4, 5, 6, 12, 480])
def test_last_test_covers_every_mini_batch(batches):
    schedule = _mini_batch_counts_of_tests(batches)
    assert schedule == sorted(set(schedule))
    assert (schedule[0], schedule[-1]) == (min(5, batches), batches)


def test_race_finds_the_best_for_less_than_full_cost():
    space = plain_space(2)
    means = additive(space)
    objective = BudgetedObjective(table_source(space, means), range(12), 10**4)
    draw = np.random.default_rng(0)
    candidates = np.array(
        [space.choice_digits_at_index(index) for index in draw.choice(space.num_configurations, 60, replace=False)],
        np.uint8,
    )
    survivors = run_race(objective, candidates, draw)
    indices = [space.index_of_choice_digits(row.tolist()) for row in candidates]
    assert space.index_of_choice_digits(survivors[0].tolist()) == min(indices, key=means.__getitem__)
    assert 1 <= len(survivors) <= 8
    assert objective.spent < 60
    losses = objective.mean_losses(survivors)
    assert (np.diff(losses) >= 0).all()
