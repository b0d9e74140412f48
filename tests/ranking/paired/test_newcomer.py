"""A new row is compared with the best row before it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bln_search.ranking.paired.newcomer import p_value_of_newcomer


def draw_losses(rows, seeds=6, random=0, worse=0.0):
    generator = np.random.default_rng(random)
    losses = generator.normal(size=(seeds, 1)) + 0.3 * generator.normal(size=(seeds, rows))
    losses[:, 0] += worse
    return losses


def test_beside_two_rows_it_is_a_one_sided_paired_t_test_for_each_rival():
    losses = draw_losses(3, worse=0.8)
    best = 1 + losses[:, 1:].mean(axis=0).argmin()
    single = stats.ttest_rel(losses[:, 0], losses[:, best], alternative="greater").pvalue
    assert p_value_of_newcomer(losses, 2) == pytest.approx(2 * single)
    assert p_value_of_newcomer(losses, 7) == pytest.approx(7 * single)


def test_a_row_that_is_not_worse_has_the_p_value_1():
    assert p_value_of_newcomer(draw_losses(8, worse=-2.0), 7) == 1.0
    losses = draw_losses(8)
    losses[:, 0] = losses[:, losses.mean(axis=0).argmin()]
    assert p_value_of_newcomer(losses, 7) == 1.0


def test_differences_that_are_equal_under_all_seeds_tell_nothing():
    losses = draw_losses(3)
    losses[:, 0] = losses[:, 1:].min(axis=1) + 1.0
    losses[:, 1] = losses[:, 0] - 1.0
    assert p_value_of_newcomer(losses, 2) == 1.0


def test_moderated_variances_make_few_seeds_tell_more():
    losses = draw_losses(12, seeds=3, worse=3.0)
    assert p_value_of_newcomer(losses, 11) < 0.2 * p_value_of_newcomer(losses[:, :3], 11)


def test_further_seeds_of_complete_rows_inform_the_variance():
    losses = draw_losses(12, seeds=12, worse=3.0)
    losses[4:, 0] = np.nan
    assert p_value_of_newcomer(losses, 11) < p_value_of_newcomer(losses[:4], 11)


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1e200])
def test_the_unit_of_the_loss_and_an_effect_of_the_seed_change_nothing(scale):
    losses = draw_losses(30, worse=1.0)
    expected = p_value_of_newcomer(losses, 29)
    shuffled = losses[:, [0, *np.random.default_rng(1).permutation(29) + 1]]
    assert p_value_of_newcomer(scale * (shuffled + np.arange(6)[:, None]), 29) == pytest.approx(expected, rel=1e-6)


def test_repeated_rows_count_once():
    losses = draw_losses(8, worse=1.0)
    repeated = np.concatenate([losses, losses[:, 1:]], axis=1)
    assert p_value_of_newcomer(repeated, 7) == pytest.approx(p_value_of_newcomer(losses, 7))
