"""Rows that may be recommended: by loss, by accuracy where no loss is below that of the class frequencies, or all."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.ranking.selection.eligible_rows import EligibilityBasis, find_eligible_rows

PRIOR = ClassPriorBaseline(loss=1.0, accuracy=0.5)  # two standard errors of 100 examples are 0.1


@pytest.mark.parametrize(
    ("losses", "accuracies", "current", "basis", "eligible"),
    [
        ([0.9, 1.0, 1.1], [0.5, 0.9, 0.9], None, "loss", [True, False, False]),
        ([1.0, 1.5, 2.0], [0.5, 0.65, 0.7], None, "accuracy", [False, True, True]),
        ([1.0, 1.5, 2.0], [0.5, 0.65, 0.7], 2, "accuracy", [False, False, True]),
        ([1.0, 1.5, 2.0], [0.5, 0.65, 0.7], 1, "accuracy", [False, True, True]),
        ([1.0, 1.5, 2.0], [0.7, 0.5, 0.45], 2, "accuracy", [True, False, True]),
        ([1.0, 1.5, 2.0], [0.5, 0.6, 0.4], 2, "none", [False, False, True]),
        ([1.0, 1.5, 2.0], [0.5, 0.6, 0.4], None, "none", [True, True, True]),
    ],
)
def test_loss_decides_then_accuracy_beyond_chance(losses, accuracies, current, basis, eligible):
    columns = (np.array(values)[:, None] for values in (losses, accuracies))
    found = find_eligible_rows(*columns, [PRIOR], [100], current)
    assert (found.basis, [*found.mask]) == (EligibilityBasis(basis), eligible)


def test_one_condition_suffices():
    accuracies = np.array([[0.7, 0.5], [0.5, 0.7], [0.5, 0.5]])
    found = find_eligible_rows(np.array([[0.9, 2.0], [2.0, 0.9], [1.0, 1.0]]), accuracies, [PRIOR] * 2, [100] * 2)
    assert (found.basis, [*found.mask]) == (EligibilityBasis.LOSS, [True, True, False])
    found = find_eligible_rows(np.full((3, 2), 1.0), accuracies, [PRIOR] * 2, [100] * 2)
    assert (found.basis, [*found.mask]) == (EligibilityBasis.ACCURACY, [True, True, False])


def test_every_row_is_eligible_where_the_class_frequencies_are_unknown():
    found = find_eligible_rows(np.array([[5.0], [9.0]]), np.full((2, 1), np.nan), [None], [100])
    assert (found.basis, [*found.mask]) == (EligibilityBasis.LOSS, [True, True])
