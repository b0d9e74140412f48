"""The comparison of a whole table, from outcomes to the stored record."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.ranking.comparison import Comparison
from bln_search.ranking.paired import OutcomeTable, compare_all_pairs_of_rows
from bln_search.ranking.paired.per_seed_tests import wilcoxon_p_values
from bln_search.ranking.statistics.intervals import adjust_p_values_by_holm
from bln_search.ranking.statistics.letter_display import compact_letter_display, rank_interval_of_each_row
from tests.ranking.tables import ROWS, draw


def compare_table(table, **options):
    return compare_all_pairs_of_rows(ROWS[: table.num_rows], table, Split.VALIDATION, **options)


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


def test_letters_and_ranks_follow_from_significant_pairs():
    comparison = compare_table(three_levels())
    assert [row.letters for row in comparison.rows] == ["a", "a", "b", "b", "c", "c"]
    assert [(row.lowest_rank, row.highest_rank) for row in comparison.rows] == [(1, 2)] * 2 + [(3, 4)] * 2 + [
        (5, 6)
    ] * 2
    assert [row.in_top_group for row in comparison.rows] == [True, True, False, False, False, False]
    assert comparison.top_group == comparison.rows[:2]
    different_pairs = {(pair.first, pair.second) for pair in comparison.pairs if pair.is_significant}
    assert compact_letter_display(6, different_pairs) == [row.letters for row in comparison.rows]
    assert rank_interval_of_each_row(6, different_pairs) == [
        (row.lowest_rank, row.highest_rank) for row in comparison.rows
    ]


@pytest.mark.parametrize(("noisy", "top_group"), [(1, 2), (0, 3)])
def test_first_significant_difference_from_the_best_ends_the_top_group(noisy, top_group):
    """The noisy row differs significantly from no other, so one pair is significant: (0, 2) or (1, 2)."""
    generator = np.random.default_rng(0)
    losses = np.arange(3.0)[:, None] + 0.01 * generator.normal(size=(3, 400))
    losses[noisy] += 60 * stats.zscore(generator.normal(size=400))
    comparison = compare_table(OutcomeTable(losses[None].astype(np.float32), losses[None] < 1))
    significant = {(pair.first, pair.second) for pair in comparison.pairs if pair.is_significant}
    assert significant == {(1 - noisy, 2)}
    assert [row.in_top_group for row in comparison.rows] == [index < top_group for index in range(3)]


def test_holm_corrects_over_pairs_and_within_seeds():
    outcome_table = draw(np.random.default_rng(1), rows=3, difference=0.2, of_seed=0.1)
    comparison = compare_table(outcome_table)
    assert [pair.loss.adjusted for pair in comparison.pairs] == adjust_p_values_by_holm(
        [pair.loss.p for pair in comparison.pairs]
    )
    assert [pair.accuracy.adjusted for pair in comparison.pairs] == adjust_p_values_by_holm(
        [pair.accuracy.p for pair in comparison.pairs]
    )
    ordered = outcome_table.restrict_to_rows([ROWS.index(row.key) for row in comparison.rows])
    for seed, line in enumerate(wilcoxon_p_values(ordered).tolist()):
        assert [pair.wilcoxon[seed] for pair in comparison.pairs] == pytest.approx(adjust_p_values_by_holm(line))


def test_differences_lie_in_their_intervals():
    comparison = compare_table(three_levels())
    assert len(comparison.pairs) == 15
    for pair in comparison.pairs:
        first, second = comparison.rows[pair.first], comparison.rows[pair.second]
        assert pair.loss.mean == pytest.approx(first.loss - second.loss, abs=1e-6)
        assert pair.accuracy.mean == pytest.approx(first.accuracy - second.accuracy, abs=1e-6)
        assert pair.loss.low < pair.loss.mean < pair.loss.high
        assert pair.loss.mean <= 0
        assert comparison.find_pair(pair.first, pair.second) is pair
    assert comparison.find_pair(1, 0) is None


def test_first_place_shares_sum_to_one():
    comparison = compare_table(three_levels())
    assert sum(row.first_share for row in comparison.rows) == pytest.approx(1)
    assert comparison.rows[0].first_share > 0.3
    assert comparison.rows[5].first_share == 0


def test_comparison_survives_storage():
    comparison = compare_table(three_levels(), not_compared=3)
    assert comparison.not_compared == 3
    assert Comparison.model_validate_json(comparison.model_dump_json()) == comparison


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


def test_order_of_input_rows_does_not_matter():
    outcome_table = three_levels()
    turned = outcome_table.restrict_to_rows(range(5, -1, -1))
    comparison = compare_table(outcome_table)
    reordered_comparison = compare_all_pairs_of_rows(ROWS[5::-1], turned, Split.VALIDATION)
    assert [row.key for row in reordered_comparison.rows] == [row.key for row in comparison.rows]
    assert [pair.loss.p for pair in reordered_comparison.pairs] == pytest.approx(
        [pair.loss.p for pair in comparison.pairs], rel=1e-6
    )


def test_one_seed_is_compared_over_its_examples():
    comparison = compare_table(three_levels(seeds=1))
    assert (comparison.seeds, comparison.friedman) == (1, None)
    assert comparison.rows[0].mean_rank is None
    assert [row.letters for row in comparison.rows] == ["a", "a", "b", "b", "c", "c"]


def test_two_rows_are_one_pair_without_friedman():
    comparison = compare_table(draw(np.random.default_rng(3), rows=2, difference=1.0))
    assert (len(comparison.pairs), comparison.friedman) == (1, None)
    assert comparison.pairs[0].is_significant


def test_one_row_has_no_pairs():
    comparison = compare_table(draw(np.random.default_rng(4), rows=1))
    assert (len(comparison.rows), comparison.pairs, comparison.rows[0].letters, comparison.rows[0].first_share) == (
        1,
        (),
        "a",
        1,
    )


@pytest.mark.parametrize("level", [1e4, 1e12, 1e30])
def test_scale_of_losses_does_not_matter(level):
    outcome_table = three_levels()
    comparison = compare_table(OutcomeTable(outcome_table.losses * np.float32(level), outcome_table.correct))
    assert [row.letters for row in comparison.rows] == ["a", "a", "b", "b", "c", "c"]
    small = [pair.loss.p for pair in compare_table(outcome_table).pairs]
    assert [pair.loss.p for pair in comparison.pairs] == pytest.approx(small, rel=1e-3, abs=1e-12)


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


@pytest.mark.parametrize("shape", [(2, 3, 1), (2, 3, 0), (0, 3, 4)])
def test_too_few_seeds_or_examples_are_rejected(shape):
    with pytest.raises(DataError, match="at least 1 and 2 are needed"):
        OutcomeTable(np.zeros(shape, np.float32), np.zeros(shape, bool))
