"""A whole table compared, from outcomes to the record that is kept."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.ranking.comparison import Comparison
from bln_search.ranking.paired import OutcomeTable, compare
from bln_search.ranking.paired.per_seed_tests import wilcoxon
from bln_search.ranking.statistics.intervals import holm
from bln_search.ranking.statistics.letter_display import compact_letter_display, rank_intervals
from tests.ranking.tables import ROWS, draw


def compared(made, **more):
    return compare(ROWS[: made.rows], made, Split.VALIDATION, **more)


def three_levels(seeds=5):
    """Six rows, best last: two each at losses near 0, 1 and 2."""
    made = draw(np.random.default_rng(0), seeds=seeds, rows=6, examples=300, of_seed=0.05)
    losses = made.losses + np.float32([2, 2, 1, 1, 0, 0])[:, None]
    return OutcomeTable(losses, losses < 1)


def test_rows_are_ordered_by_mean_loss_with_their_keys():
    made = three_levels()
    found = compared(made)
    means = made.losses.mean(axis=(0, 2), dtype=np.float64)
    order = np.argsort(means)
    assert [row.key for row in found.rows] == [ROWS[place] for place in order]
    assert [row.loss for row in found.rows] == pytest.approx(means[order])
    assert [row.accuracy for row in found.rows] == pytest.approx(made.correct.mean(axis=(0, 2))[order])


def test_letters_and_ranks_follow_from_significant_pairs():
    found = compared(three_levels())
    assert [row.letters for row in found.rows] == ["a", "a", "b", "b", "c", "c"]
    assert [(row.lowest_rank, row.highest_rank) for row in found.rows] == [(1, 2)] * 2 + [(3, 4)] * 2 + [(5, 6)] * 2
    assert [row.in_top_group for row in found.rows] == [True, True, False, False, False, False]
    assert found.top_group == found.rows[:2]
    apart = {(one.first, one.second) for one in found.pairs if one.is_significant}
    assert compact_letter_display(6, apart) == [row.letters for row in found.rows]
    assert rank_intervals(6, apart) == [(row.lowest_rank, row.highest_rank) for row in found.rows]


def test_holm_corrects_over_pairs_and_within_seeds():
    made = draw(np.random.default_rng(1), rows=4, difference=0.2, of_seed=0.1)
    found = compared(made)
    assert [one.loss.adjusted for one in found.pairs] == holm([one.loss.p for one in found.pairs])
    assert [one.accuracy.adjusted for one in found.pairs] == holm([one.accuracy.p for one in found.pairs])
    ordered = made.select_rows([ROWS.index(row.key) for row in found.rows])
    for seed, line in enumerate(wilcoxon(ordered).tolist()):
        assert [one.wilcoxon[seed] for one in found.pairs] == pytest.approx(holm(line))


def test_differences_lie_in_their_intervals():
    found = compared(three_levels())
    assert len(found.pairs) == 15
    for one in found.pairs:
        first, second = found.rows[one.first], found.rows[one.second]
        assert one.loss.mean == pytest.approx(first.loss - second.loss, abs=1e-6)
        assert one.accuracy.mean == pytest.approx(first.accuracy - second.accuracy, abs=1e-6)
        assert one.loss.low < one.loss.mean < one.loss.high
        assert one.loss.mean <= 0
        assert found.pair(one.first, one.second) is one
    assert found.pair(1, 0) is None


def test_first_place_shares_sum_to_one():
    found = compared(three_levels())
    assert sum(row.first_share for row in found.rows) == pytest.approx(1)
    assert found.rows[0].first_share > 0.3
    assert found.rows[5].first_share == 0


def test_comparison_survives_storage():
    found = compared(three_levels(), not_compared=3)
    assert found.not_compared == 3
    assert Comparison.model_validate_json(found.model_dump_json()) == found


def test_comparison_is_reproducible_by_seed():
    made = draw(np.random.default_rng(2), rows=4)
    assert compared(made, random=1).model_dump_json() == compared(made, random=1).model_dump_json()
    assert compared(made, random=1).model_dump_json() != compared(made, random=2).model_dump_json()


def test_order_of_input_rows_does_not_matter():
    made = three_levels()
    turned = made.select_rows(range(5, -1, -1))
    one = compared(made)
    other = compare(ROWS[5::-1], turned, Split.VALIDATION)
    assert [row.key for row in other.rows] == [row.key for row in one.rows]
    assert [pair.loss.p for pair in other.pairs] == pytest.approx([pair.loss.p for pair in one.pairs], rel=1e-6)


def test_one_seed_is_compared_over_its_examples():
    found = compared(three_levels(seeds=1))
    assert (found.seeds, found.friedman) == (1, None)
    assert found.rows[0].mean_rank is None
    assert [row.letters for row in found.rows] == ["a", "a", "b", "b", "c", "c"]


def test_two_rows_are_one_pair_without_friedman():
    found = compared(draw(np.random.default_rng(3), rows=2, difference=1.0))
    assert (len(found.pairs), found.friedman) == (1, None)
    assert found.pairs[0].is_significant


def test_one_row_has_no_pairs():
    found = compared(draw(np.random.default_rng(4), rows=1))
    assert (len(found.rows), found.pairs, found.rows[0].letters, found.rows[0].first_share) == (1, (), "a", 1)


@pytest.mark.parametrize("level", [1e4, 1e12, 1e30])
def test_scale_of_losses_does_not_matter(level):
    made = three_levels()
    found = compared(OutcomeTable(made.losses * np.float32(level), made.correct))
    assert [row.letters for row in found.rows] == ["a", "a", "b", "b", "c", "c"]
    small = [one.loss.p for one in compared(made).pairs]
    assert [one.loss.p for one in found.pairs] == pytest.approx(small, rel=1e-3, abs=1e-12)


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
