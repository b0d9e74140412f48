"""Very large splits are compared on a random sample, and the comparison says so."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.enums import Split
from bln_search.ranking.comparison import Comparison
from bln_search.ranking.paired import compare_rows
from bln_search.ranking.paired import table as outcome_table
from bln_search.ranking.paired.table import MAX_COMPARED_EXAMPLES, draw_compared_examples
from bln_search.reports.sentences.significance import comparison_method_text
from tests.ranking.tables import ROWS, draw


@pytest.mark.parametrize("examples", [2, 10_000, MAX_COMPARED_EXAMPLES])
def test_all_examples_of_usual_splits_are_compared(examples):
    assert draw_compared_examples(examples) is None


@pytest.mark.parametrize("examples", [MAX_COMPARED_EXAMPLES + 1, 4_000_000])
def test_sample_has_distinct_examples_of_the_whole_split_and_is_always_the_same(examples):
    positions = draw_compared_examples(examples)
    assert len(np.unique(positions)) == len(positions) == MAX_COMPARED_EXAMPLES
    assert 0 <= positions.min() < examples // 1000 + 1
    assert examples - examples // 1000 - 2 < positions.max() < examples
    np.testing.assert_array_equal(positions, draw_compared_examples(examples))


def test_comparison_names_the_sample(monkeypatch):
    monkeypatch.setattr(outcome_table, "MAX_COMPARED_EXAMPLES", 500)
    table = draw(np.random.default_rng(0), seeds=1, examples=2_000, difference=1.0)
    part = draw_compared_examples(2_000)
    sample = type(table)(table.losses[:, :, part], table.correct[:, :, part], sampled_from=2_000)
    comparison = compare_rows(ROWS[:2], sample, Split.VALIDATION)
    assert (comparison.examples, comparison.sampled_from) == (500, 2_000)
    assert "500 examples, drawn at random from 2000" in comparison_method_text(comparison)
    assert Comparison.model_validate_json(comparison.model_dump_json()) == comparison


def test_comparison_of_all_examples_names_no_sample():
    comparison = compare_rows(ROWS[:2], draw(np.random.default_rng(0)), Split.VALIDATION)
    assert comparison.sampled_from is None
    assert "drawn" not in comparison_method_text(comparison)
