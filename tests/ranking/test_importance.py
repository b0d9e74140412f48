"""Importance of parameters: epsilon squared of a one-way analysis of variance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bln_search.ranking.statistics.importance import importance_by_parameter


def importance(values, losses):
    """Of one parameter with these values."""
    return importance_by_parameter([{"parameter": value} for value in values], losses)["parameter"]


def test_importance_is_the_analysis_of_variance():
    """Epsilon squared written out with SciPy's F: (k-1)(F-1) / ((k-1)F + n-k)."""
    rng = np.random.default_rng(0)
    kinds = ["abc"[index % 3] for index in range(30)]
    losses = ["abc".index(kind) + float(rng.normal()) for kind in kinds]
    groups = ([loss for loss, of in zip(losses, kinds, strict=True) if of == kind] for kind in "abc")
    f = stats.f_oneway(*groups).statistic
    assert importance(kinds, losses) == pytest.approx(2 * (f - 1) / (2 * f + 27))


def test_importance_finds_the_parameter_that_matters():
    rng = np.random.default_rng(0)
    points = [{"idle": float(rng.random()), "good": float(rng.random())} for _ in range(60)]
    result = importance_by_parameter(points, [point["good"] ** 2 for point in points])
    assert list(result) == ["good", "idle"]
    assert result["good"] > 0.7
    assert result["idle"] < 0.2


@pytest.mark.parametrize(("count", "names"), [(7, []), (8, ["kind"])])
def test_importance_needs_eight_points(count, names):
    points = [{"kind": "ab"[index % 2]} for index in range(count)]
    assert list(importance_by_parameter(points, list(range(count)))) == names


def test_many_numbers_are_grouped_by_quartiles():
    values = [float(index) for index in range(20)]
    assert importance(values, [index // 5 for index in range(20)]) == pytest.approx(1)
    assert importance(values, [index // 10 for index in range(20)]) == pytest.approx(1)
    assert importance(values, [index % 5 for index in range(20)]) == 0


@pytest.mark.parametrize("values", [(1, 2, 3), (0.1, 0.2, 0.3, 0.4), "abc", "abcdef"])
def test_few_numbers_and_categories_are_groups_each(values):
    """Quartiles would join values, because most points have the first one."""
    drawn = [values[0]] * 20 + [value for value in values[1:] for _ in range(2)]
    assert importance(drawn, [float(values.index(value)) for value in drawn]) == pytest.approx(1)


def test_groups_without_variance_or_repetition_have_importance_zero():
    assert importance("abababab", [1.0] * 8) == 0
    assert importance("abcdefgh", list(range(8))) == 0
    assert importance("aaaaaaaa", list(range(8))) == 0
