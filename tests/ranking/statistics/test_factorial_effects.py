"""Effects of every order against least squares, and their orthogonality."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from bln_search.core.configuration import all_configurations
from bln_search.core.method import Method, Statistic
from bln_search.ranking.statistics.factorial_effects import compute_factorial_effects

BLN = all_configurations(Method.BLN)
SUBSETS = [subset for count in (1, 2, 3, 4) for subset in itertools.combinations(range(4), count)]
CODES = np.array([[1 if letter == "T" else -1 for letter in str(configuration)] for configuration in BLN])


def values(seed, seeds=5):
    rng = np.random.default_rng(seed)
    return {configuration: dict(enumerate(rng.normal(size=seeds).tolist())) for configuration in BLN}


def means(table):
    return np.array([np.mean(list(by_seed.values())) for by_seed in table.values()])


@pytest.mark.parametrize(("order", "counts"), [(1, [4]), (2, [4, 6]), (3, [4, 6, 4]), (4, [4, 6, 4, 1])])
def test_four_switches_have_binomial_counts_of_effects(order, counts):
    effect_orders = [len(effect.switches) for effect in compute_factorial_effects(values(0), order)]
    assert [effect_orders.count(count) for count in range(1, order + 1)] == counts
    assert len(effect_orders) == sum(counts)


def test_effects_of_every_order_equal_least_squares():
    table = values(2)
    design = np.column_stack([np.ones(16), *(CODES[:, list(subset)].prod(1) for subset in SUBSETS)])
    fitted = np.linalg.lstsq(design, means(table), rcond=None)[0][1:] * 2
    effects = compute_factorial_effects(table, 4)
    assert [effect.size.mean for effect in effects] == pytest.approx(fitted.tolist())
    assert [effect.switches for effect in effects] == [
        tuple(list(Statistic)[index] for index in subset) for subset in SUBSETS
    ]


def test_interval_is_students_t_over_seeds():
    table = values(6)
    by_seed = [CODES.prod(1) @ np.array([table[configuration][seed] for configuration in BLN]) / 8 for seed in range(5)]
    low, high = stats.t.interval(0.95, 4, np.mean(by_seed), stats.sem(by_seed))
    last = compute_factorial_effects(table, 4)[-1].size
    assert (last.low, last.high) == pytest.approx((low, high))


def test_two_switches_have_three_effects_at_any_order():
    table = {configuration: {0: 1.0} for configuration in all_configurations(Method.BN)}
    assert [effect.name for effect in compute_factorial_effects(table, 4)] == ["E_B", "Std_B", "E_B × Std_B"]
