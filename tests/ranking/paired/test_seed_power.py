"""The planned number of seeds is that of the paired t test where that is the test, and follows the variances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from bln_search.core.errors import DataError
from bln_search.ranking.paired.seed_power import SEED_COUNTS, plan_seeds
from bln_search.ranking.paired.table import OutcomeTable


def table_of(losses):
    losses = np.asarray(losses, np.float64)
    return OutcomeTable(losses, np.zeros(losses.shape, np.bool_), has_correctness=False)


def pilot_of_two_rows(deviation, difference=0.1):
    """Scores of two rows under four seeds, whose differences have this mean and standard deviation."""
    spread = np.array([1.5, -0.5, 0.3, -1.3])
    spread = difference + deviation * (spread - spread.mean()) / spread.std(ddof=1)
    return table_of(np.stack([np.ones(4), 1 + spread], axis=1)[..., None])


def counts_of_power(power_of_count):
    """The counts that simulations of this power may find: the first with 80 %, and others near it."""
    low, high = (next(count for count in SEED_COUNTS if power_of_count(count) >= power) for power in (0.72, 0.88))
    return range(low, high + 1)


@pytest.mark.parametrize("ratio", [0.9, 1.5])
def test_seeds_of_a_difference_are_those_of_the_paired_t_test(ratio):
    (group,) = plan_seeds(pilot_of_two_rows(0.02), [0, 1], effect=0.02 * ratio, margin=1e-6, studies=120).groups
    assert group.worse in counts_of_power(lambda count: TTestPower().power(ratio, count, 0.05))
    assert group.of_seeds == pytest.approx(0.02, rel=0.1)
    assert group.equal is None


def test_seeds_of_practical_equality_are_those_of_a_one_sided_t_test():
    margin, deviation = 0.02, 0.02
    (group,) = plan_seeds(pilot_of_two_rows(deviation), [0, 1], effect=1.0, margin=margin, studies=120).groups
    generator = np.random.default_rng(5)

    def power(count):
        draws = generator.normal(0, deviation, (5_000, count))
        t = (margin - np.abs(draws.mean(axis=1))) / (draws.std(axis=1, ddof=1) / np.sqrt(count))
        return (stats.t.sf(t, count - 1) < 0.05).mean()

    assert group.equal in counts_of_power(power)
    assert group.worse == SEED_COUNTS[0]


def test_examples_limit_what_seeds_can_decide():
    generator = np.random.default_rng(2)
    of_examples = generator.normal(0, 1, (1, 2, 40))
    losses = 3 + of_examples + generator.normal(0, 1e-3, (3, 2, 1))
    (group,) = plan_seeds(table_of(losses), [0, 1], effect=0.1, margin=0.05, studies=30).groups
    assert (group.worse, group.equal) == (None, None)
    differences = losses[:, 1] - losses[:, 0]
    assert group.of_examples == pytest.approx(differences.mean(axis=0).std(ddof=1) / np.sqrt(40), rel=0.1)


def test_each_arm_is_judged_by_its_best_row_and_a_larger_effect_needs_fewer_seeds():
    generator = np.random.default_rng(3)
    of_arms = np.repeat(generator.normal(0, 0.02, (3, 3, 1)), 2, axis=1)
    losses = (
        1 + of_arms + np.array([0, 0.4, 0.05, 0.3, 0.06, 0.2])[None, :, None] + generator.normal(0, 1e-4, (3, 6, 1))
    )
    required = []
    for effect in (0.02, 0.2):
        plan = plan_seeds(table_of(losses), [0, 0, 1, 1, 2, 2], effect=effect, margin=0.01, studies=30)
        assert (plan.best_row, {group.row for group in plan.groups}) == (0, {2, 4})
        required.append([group.worse for group in plan.groups])
    assert all(few <= many for few, many in zip(required[1], required[0], strict=True))
    assert required[0] != required[1]


def test_a_plan_is_the_same_each_time():
    pilot = pilot_of_two_rows(0.03)
    assert plan_seeds(pilot, [0, 1], studies=10) == plan_seeds(pilot, [0, 1], studies=10)


def test_rows_of_one_arm_that_are_practically_equal_are_decided():
    losses = 1 + np.random.default_rng(4).normal(0, 1e-6, (4, 5, 1))
    assert plan_seeds(table_of(losses), [0] * 5, margin=0.01).groups == ()


def test_a_margin_of_zero_needs_an_effect():
    with pytest.raises(DataError, match="effect"):
        plan_seeds(pilot_of_two_rows(0.02), [0, 1], margin=0.0)


@pytest.mark.parametrize(
    ("losses", "message"),
    [(np.arange(6.0).reshape(1, 2, 3), "one seed"), (np.ones((3, 2, 4)), "the same losses")],
)
def test_a_pilot_that_tells_nothing_is_refused(losses, message):
    with pytest.raises(DataError, match=message):
        plan_seeds(table_of(losses), [0, 1])
