"""Text about what is known of the rows beside the best one, and how much data would decide."""

from __future__ import annotations

import pytest

from bln_search.core.enums import Split
from bln_search.ranking.comparison import RequiredData, Verdict
from bln_search.ranking.selection.recommendation import recommend_row
from bln_search.reports.sentences.significance import (
    comparison_method_text,
    required_data_assumptions_text,
    required_data_text,
    row_verdicts_text,
    short_verdict_text,
    verdict_text,
)
from tests.ranking.comparisons import compared


def requiring(seeds, examples, *, limited=False):
    required = RequiredData(seeds=seeds, examples=examples, limited_by_examples=limited)
    return compared("TTTT", "FTTT").model_copy(update={"required": required})


@pytest.mark.parametrize(
    ("comparison", "expected"),
    [
        (requiring(7, None), "about 7 seeds instead of 3 would decide"),
        (requiring(None, 40), "about 40 examples instead of 9 would decide"),
        (requiring(7, 40), "about 7 seeds instead of 3 or about 40 examples instead of 9 would decide"),
        (requiring(None, None), "far more than 3 seeds, 9 examples would be needed to decide"),
        (requiring(None, None, limited=True), "more seeds alone would not decide (3 seeds, 9 examples)"),
    ],
)
def test_required_data(comparison, expected):
    assert required_data_text(comparison) == expected
    assert required_data_assumptions_text(comparison) is not None


def test_a_decided_comparison_requires_nothing():
    comparison = compared("TTTT", "FTTT", settled=True)
    assert required_data_text(comparison) is required_data_assumptions_text(comparison) is None


def test_rows_are_counted_by_verdict():
    comparison = compared(
        "TTTT", "FTTT", "FFFF", "TFFF", "TTFF", equal=("FTTT",), worse=("FFFF", "TFFF"), not_compared=4
    )
    assert row_verdicts_text(comparison) == (
        "1 row is practically equal to the best one (within 0.01), 2 rows are significantly worse, 1 row: cannot tell; "
        "4 further rows were not compared"
    )


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({"worse": ("FTTT",)}, "it is significantly better than the other row"),
        ({"settled": True}, "no row is better by more than 0.01 (95 %)"),
        ({}, "another row may be better by more than 0.01"),
    ],
)
def test_verdict_is_explained(options, start):
    assert verdict_text(recommend_row(compared("TTTT", "FTTT", **options), {})) == start


def test_method_says_what_the_answer_extends_to():
    assert "for new trainings (3 seeds, 9 examples)" in comparison_method_text(compared("TTTT", "FTTT"))
    assert "for 1 network on other examples" in comparison_method_text(compared("TTTT", "FTTT", seeds=1))
    these = compared("TTTT", "FTTT", current="FTTT")
    assert "for 3 networks on other examples" in comparison_method_text(these)
    assert f"the {Split.VALIDATION} loss" in comparison_method_text(these)


@pytest.mark.parametrize(
    ("verdict", "required", "expected"),
    [
        (Verdict.BETTER, None, "better"),
        (Verdict.PRACTICALLY_EQUAL, {"seeds": 7, "examples": 40}, "practically equal"),
        (Verdict.CANNOT_TELL, {"seeds": 7, "examples": 40}, "about 7 seeds would decide"),
        (Verdict.CANNOT_TELL, {"seeds": None, "examples": 4000}, "about 4,000 examples would decide"),
        (
            Verdict.CANNOT_TELL,
            {"seeds": None, "examples": None, "limited_by_examples": True},
            "more seeds alone would not decide",
        ),
        (Verdict.CANNOT_TELL, {"seeds": None, "examples": None}, "cannot tell"),
    ],
)
def test_a_list_shows_what_is_decided_or_would_decide(verdict, required, expected):
    assert short_verdict_text(verdict, None if required is None else RequiredData(**required)) == expected
