"""Charts are drawn from their files; that of the weights of BLN has the numbers of Eq. 16."""

from __future__ import annotations

import numpy as np
import pytest

from bench.documents.charts import CHARTS, loss_chart, weights_chart
from bench.support.reporting import load_result

EPSILON = 1e-4


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_has_lines(name):
    try:
        chart = CHARTS[name]()
    except FileNotFoundError:
        pytest.skip("it is not measured")
    assert all(len(trace.x) == len(trace.y) > 1 for trace in chart.data)


def test_a_line_has_the_means_of_its_arm():
    arms = load_result("draw_mnist_small_curves")["arms"]
    lines = {(trace.name, trace.yaxis): list(trace.y) for trace in loss_chart("draw_mnist_small").data if trace.name}
    for arm, measured in arms.items():
        assert lines[arm, "y"] == [record["mean"] for record in measured["validation_loss"]]
        assert lines[arm, "y2"] == [record["mean"] for record in measured["training_loss"]]


def test_the_picture_has_the_weights_of_the_formula():
    m = np.arange(1, 51)
    mini_batch, features = weights_chart().data
    np.testing.assert_array_equal(mini_batch.x, m)
    np.testing.assert_allclose(mini_batch.y, 1 - (1 / m + EPSILON), rtol=0, atol=1e-15)
    np.testing.assert_allclose(features.y, 1 / m - EPSILON, rtol=0, atol=1e-15)
