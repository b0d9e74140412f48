"""A leaderboard with the method `none` says whether normalization lowers the loss."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.paired.compare import compare_rows
from bln_search.ranking.paired.table import OutcomeTable
from bln_search.ranking.selection.normalization_benefit import compute_normalization_benefit
from bln_search.reports.sentences.recommendation import normalization_benefit_sentence


def comparison_of(*losses_and_codes, seeds=6, examples=400, noise=0.05):
    """Rows by increasing loss, each with noise over seeds and examples."""
    rng = np.random.default_rng(0)
    means = np.array([loss for loss, _ in losses_and_codes], np.float32)
    losses = means[None, :, None] + noise * rng.standard_normal((seeds, len(means), examples)).astype(np.float32)
    rows = [RowKey("bn" if "F" in code or "T" in code else "none", "", InferenceConfiguration(code), None, 25)
            for _, code in losses_and_codes]  # fmt: skip
    return compare_rows(rows, OutcomeTable(losses, losses < 1), Split.VALIDATION), losses


def test_benefit_is_the_loss_without_minus_the_lowest_loss_with_normalization():
    comparison, losses = comparison_of((0.5, "FF--"), (0.6, "TT--"), (0.9, "----"))
    benefit = compute_normalization_benefit(comparison)
    assert benefit.difference.mean == pytest.approx(float((losses[:, 2] - losses[:, 0]).mean()), abs=1e-6)
    assert benefit.difference.low < benefit.difference.mean < benefit.difference.high
    above = comparison.rows[2].above_best
    assert (benefit.difference.p, benefit.difference.adjusted) == (above.p, above.adjusted)
    assert benefit.candidates == 2
    assert (benefit.plain.configuration, benefit.normalized.configuration) == ("----", "FF--")
    assert benefit.is_significant
    assert "lowers" in normalization_benefit_sentence(benefit)


def test_normalization_that_harms_has_a_negative_difference():
    comparison, losses = comparison_of((0.5, "----"), (0.8, "TT--"), (0.9, "FF--"))
    benefit = compute_normalization_benefit(comparison)
    assert benefit.difference.mean == pytest.approx(float((losses[:, 0] - losses[:, 1]).mean()), abs=1e-6)
    assert benefit.normalized.configuration == "TT--"
    assert benefit.is_significant
    assert "raises" in normalization_benefit_sentence(benefit)


def test_equal_rows_are_not_significant():
    benefit = compute_normalization_benefit(comparison_of((0.5, "TT--"), (0.5001, "----"), noise=0.5)[0])
    assert not benefit.is_significant
    assert normalization_benefit_sentence(benefit).startswith("No significant difference")


def test_there_is_no_answer_without_both_kinds_of_rows():
    assert compute_normalization_benefit(None) is None
    assert compute_normalization_benefit(comparison_of((0.5, "TT--"), (0.6, "FF--"))[0]) is None
