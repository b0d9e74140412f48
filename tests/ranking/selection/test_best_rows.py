"""The best rows of two studies, compared."""

from __future__ import annotations

import pytest

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.records import RowKey
from bln_search.ranking.selection.cross_study import compare_best_rows_of_studies, match_rows_between_studies
from bln_search.reports.sentences.study_comparison import best_rows_difference_sentence, shared_rows_sentence

TRUE, FALSE = (RowKey("bn", "", InferenceConfiguration(code), "frozen", 25) for code in ("TT--", "FF--"))
FIRST = {TRUE: {0: 0.50, 1: 0.52, 2: 0.51}, FALSE: {0: 0.60, 1: 0.62, 2: 0.61}}
WORSE = {TRUE: {0: 0.80, 1: 0.83, 2: 0.81}, FALSE: {0: 0.70, 1: 0.73, 2: 0.71}}


def test_best_rows_are_those_of_lowest_mean_loss():
    best = compare_best_rows_of_studies(FIRST, WORSE)
    assert (best.first, best.best) == (TRUE, FALSE)
    assert best.difference.mean == pytest.approx((0.20 + 0.21 + 0.20) / 3)
    assert best.difference.excludes_zero


def test_row_that_lacks_seeds_is_not_the_best():
    lucky = {**WORSE, TRUE: {0: 0.1}}
    assert compare_best_rows_of_studies(FIRST, lucky).best == FALSE


def test_study_without_rows_has_no_best_row():
    assert compare_best_rows_of_studies(FIRST, {}) is None
    assert compare_best_rows_of_studies({}, FIRST) is None


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        (WORSE, "significantly higher than that of a"),
        ({TRUE: {0: 0.3, 1: 0.31, 2: 0.3}}, "significantly lower than that of a"),
        ({TRUE: {0: 0.3, 1: 0.9, 2: 0.4}}, "are not significantly different"),
        ({TRUE: {7: 0.3}}, "With one seed no test is possible"),
    ],
)
def test_verdict_follows_from_the_interval(other, verdict):
    assert verdict in best_rows_difference_sentence("a", "b", "validation", compare_best_rows_of_studies(FIRST, other))


def test_shared_rows_are_counted_by_sign_and_significance():
    rows, _ = match_rows_between_studies(
        [FIRST, {TRUE: {0: 0.4, 1: 0.42, 2: 0.41}, FALSE: {0: 0.5, 1: 0.9, 2: 0.6}}], None
    )
    assert shared_rows_sentence(rows, 1).endswith(": 1 lower (1 significantly) and 1 higher (0).")
    assert shared_rows_sentence(rows, 1, has_more=True).startswith("The first 2 rows")
    assert shared_rows_sentence([], 1) is None
