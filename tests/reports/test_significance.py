"""Text about significant differences agrees with the intervals beside it, and names the number of seeds."""

from __future__ import annotations

import pytest

from bln_search.ranking.comparison import MAX_REQUIRED_SEEDS, RequiredSeeds
from bln_search.reports.sentences.significance import (
    first_rows_significance_text,
    required_seeds_assumptions_text,
    seeds_and_required_seeds_text,
)
from tests.ranking.comparisons import compared

REQUIRED = RequiredSeeds(seeds=7, level=0.05)


def with_seeds(required, seeds=3):
    return compared("TTTT", "FTTT", seeds=seeds, step=0.001).model_copy(update={"required_seeds": required})


@pytest.mark.parametrize(
    ("comparison", "expected"),
    [
        (with_seeds(REQUIRED), "3 seeds; about 7 would separate the first two"),
        (with_seeds(REQUIRED.model_copy(update={"seeds": None})), f"more than {MAX_REQUIRED_SEEDS} would be needed"),
        (
            with_seeds(RequiredSeeds(seeds=None, level=0.05, limited_by_examples=True)),
            "on 9 examples more seeds alone would not separate",
        ),
        (with_seeds(None, seeds=1), "the required number of seeds is unknown"),
    ],
    ids=["named", "too many", "examples", "one seed"],
)
def test_required_seeds(comparison, expected):
    assert expected in seeds_and_required_seeds_text(comparison)


def test_without_an_estimate_only_the_number_of_seeds_is_given():
    assert seeds_and_required_seeds_text(with_seeds(None)) == "3 seeds"
    assert required_seeds_assumptions_text(with_seeds(None)) is None


def test_no_significant_difference_where_no_interval_excludes_zero():
    comparison = with_seeds(REQUIRED)  # the interval of 0.001 ± 0.005 contains 0
    assert first_rows_significance_text(comparison).startswith(
        "no significant difference between 2 rows (3 seeds; about 7 "
    )


def test_an_interval_that_excludes_zero_is_not_contradicted():
    comparison = compared("TTTT", "FTTT", "FFFF")  # differences of 0.01 and 0.02, ± 0.005; none is significant
    text = first_rows_significance_text(comparison)
    assert "no significant difference" not in text
    assert "after correction for 2 comparisons" in text
    assert "excludes 0 for 2 of them" in text


def test_rows_of_the_first_group_that_differ_from_each_other_are_not_called_equal():
    comparison = compared("TTTT", "FTTT", "FFFF", step=0.001)
    pair = comparison.pairs[0]
    inner = pair.model_copy(
        update={"first": 1, "second": 2, "loss": pair.loss.model_copy(update={"adjusted": 0.01, "high": -0.001})}
    )
    text = first_rows_significance_text(comparison.model_copy(update={"pairs": (*comparison.pairs, inner)}))
    assert text.startswith("the first row does not differ significantly from the next 2 (")


def test_a_separated_first_row_is_named_with_its_p_value():
    text = first_rows_significance_text(compared("TTTT", "FTTT", different=("FTTT",), not_compared=4))
    assert text.startswith(
        "the first row is significantly better than the second (p = 0.01, corrected for 1 comparison)"
    )
    assert text.endswith("4 further rows were not compared")
