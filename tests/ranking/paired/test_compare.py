"""The comparison of a whole table, from outcomes to the stored record."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.ranking.comparison import Question, RowVerdict
from bln_search.ranking.paired import OutcomeTable, compare_rows
from tests.ranking.tables import ROWS, draw


def compare_table(table, **options):
    return compare_rows(ROWS[: table.num_rows], table, Split.VALIDATION, **options)


def three_levels(seeds=5):
    """Six rows, best last: two each at losses near 0, 1 and 2."""
    outcome_table = draw(np.random.default_rng(0), seeds=seeds, rows=6, examples=300, of_seed=0.05)
    losses = outcome_table.losses + np.float32([2, 2, 1, 1, 0, 0])[:, None]
    return OutcomeTable(losses, losses < 1)


def test_rows_are_ordered_by_mean_loss_with_their_keys():
    outcome_table = three_levels()
    comparison = compare_table(outcome_table)
    means = outcome_table.losses.mean(axis=(0, 2), dtype=np.float64)
    order = np.argsort(means)
    assert [row.key for row in comparison.rows] == [ROWS[index] for index in order]
    assert [row.loss for row in comparison.rows] == pytest.approx(means[order])
    assert [row.accuracy for row in comparison.rows] == pytest.approx(outcome_table.correct.mean(axis=(0, 2))[order])


def test_rows_of_other_levels_are_worse():
    comparison = compare_table(three_levels())
    assert [row.is_worse for row in comparison.rows] == [False, False, True, True, True, True]
    assert comparison.rows_not_worse == comparison.rows[:2]
    assert comparison.rows[0].verdict is RowVerdict.BEST


def test_differences_to_the_best_row_lie_in_their_intervals():
    comparison = compare_table(three_levels())
    best = comparison.rows[0]
    for row in comparison.rows[1:]:
        above, accuracy = row.above_best, row.accuracy_above_best
        assert above.mean == pytest.approx(row.loss - best.loss, abs=1e-6)
        assert accuracy.mean == pytest.approx(row.accuracy - best.accuracy, abs=1e-6)
        assert above.low < above.mean < above.high
        assert above.mean >= 0
        assert above.p <= above.adjusted


@pytest.mark.parametrize(("margin", "verdict"), [(0.5, RowVerdict.PRACTICALLY_EQUAL), (0.0, RowVerdict.CANNOT_TELL)])
def test_margin_decides_what_is_practically_equal(margin, verdict):
    comparison = compare_table(three_levels(), margin=margin)
    assert (comparison.rows[1].verdict, comparison.margin) == (verdict, margin)
    assert comparison.rows[0].is_settled is (margin > 0)
    assert not any(row.is_settled for row in comparison.rows[2:])


@pytest.mark.parametrize(("has_correctness", "margin"), [(True, 0.01), (False, 0.02)])
def test_default_margin_depends_on_the_unit(has_correctness, margin):
    losses = draw(np.random.default_rng(0)).losses
    losses += 2 - losses.mean(axis=(0, 2)).min()
    comparison = compare_table(OutcomeTable(losses, losses < 0, has_correctness=has_correctness))
    assert comparison.margin == pytest.approx(margin)


def test_a_smaller_level_decides_less():
    table = draw(np.random.default_rng(0), seeds=1, difference=0.45)
    p = compare_table(table).rows[1].above_best.adjusted
    assert compare_table(table, level=1.1 * p).rows[1].is_worse
    assert not compare_table(table, level=0.9 * p).rows[1].is_worse


def test_a_row_in_use_asks_about_these_networks():
    """Seeds differ much, examples little: the second row is worse for these networks, maybe not in new trainings."""
    table = draw(np.random.default_rng(0), seeds=3, of_seed=2.0, noise=0.1)
    these, trainings = compare_table(table, current=ROWS[1]), compare_table(table)
    assert (these.question, trainings.question) == (Question.THESE_NETWORKS, Question.NEW_TRAININGS)
    losses = table.losses.astype(float).mean(axis=0)
    expected = stats.ttest_rel(losses[0], losses[1])
    assert these.rows[1].above_best.p == pytest.approx(expected.pvalue, rel=1e-3)
    assert these.rows[1].is_worse
    assert not trainings.rows[1].is_worse
    assert these.rows[these.current].key == ROWS[1]
    assert [row.accuracy for row in these.rows] == pytest.approx([row.accuracy for row in trainings.rows])


def test_first_place_shares_sum_to_one():
    comparison = compare_table(three_levels())
    assert sum(row.first_share for row in comparison.rows) == pytest.approx(1)
    assert comparison.rows[0].first_share > 0.3
    assert comparison.rows[5].first_share == 0


def test_comparison_is_reproducible_by_seed():
    outcome_table = draw(np.random.default_rng(2), rows=4)
    assert (
        compare_table(outcome_table, random=1).model_dump_json()
        == compare_table(outcome_table, random=1).model_dump_json()
    )
    assert (
        compare_table(outcome_table, random=1).model_dump_json()
        != compare_table(outcome_table, random=2).model_dump_json()
    )


def test_one_row_is_the_best_row():
    comparison = compare_table(draw(np.random.default_rng(4), rows=1))
    (row,) = comparison.rows
    assert (row.verdict, row.first_share, row.above_best.mean, row.is_settled) == (
        RowVerdict.BEST,
        1,
        0,
        True,
    )


def test_required_data_would_decide():
    """The observed difference is far from the margin in units of the error that so many seeds leave."""
    table = draw(np.random.default_rng(3), seeds=3, rows=2, examples=400, of_seed=0.3, noise=0.1)
    comparison = compare_table(table)
    required = comparison.required
    assert required.seeds > 3
    row = comparison.rows[1]
    error = np.sqrt(row.variance * 3 / required.seeds)
    share = stats.norm.cdf((row.above_best.mean + comparison.margin) / error - stats.norm.ppf(0.95))  # of two rows
    assert share > 0.7
    assert not required.limited_by_examples


def test_few_examples_limit_what_seeds_can_decide():
    rng = np.random.default_rng(1)
    losses = rng.normal(size=(1, 2, 30)) + 0.01 * rng.normal(size=(4, 2, 30))
    required = compare_table(OutcomeTable(losses.astype(np.float32), losses < 0), margin=0.1).required
    assert (required.seeds, required.limited_by_examples) == (None, True)
    assert required.examples > 30


@pytest.mark.parametrize("level", [1e4, 1e12, 1e30])
def test_scale_of_losses_does_not_matter(level):
    outcome_table = three_levels()
    comparison = compare_table(OutcomeTable(outcome_table.losses * np.float32(level), outcome_table.correct))
    assert [row.is_worse for row in comparison.rows] == [False, False, True, True, True, True]
    small = [row.above_best.p for row in compare_table(outcome_table).rows]
    assert [row.above_best.p for row in comparison.rows] == pytest.approx(small, rel=1e-3, abs=1e-12)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_infinite_loss_is_rejected(value):
    losses = np.zeros((2, 3, 4), np.float32)
    losses[1, 2, 3] = value
    with pytest.raises(DataError, match="leave rows that diverged out of the comparison"):
        OutcomeTable(losses, losses < 1)


@pytest.mark.parametrize(("losses", "correct"), [((3, 4), (3, 4)), ((2, 3, 4), (2, 3, 5)), ((2, 3, 4), (2, 4, 3))])
def test_different_shapes_are_rejected(losses, correct):
    with pytest.raises(DataError, match="losses and correctness alike"):
        OutcomeTable(np.zeros(losses, np.float32), np.zeros(correct, bool))


@pytest.mark.parametrize("shape", [(1, 3, 1), (2, 3, 0), (0, 3, 4)])
def test_too_few_seeds_or_examples_are_rejected(shape):
    with pytest.raises(DataError, match="at least two seeds or two examples are needed"):
        OutcomeTable(np.zeros(shape, np.float32), np.zeros(shape, bool))
