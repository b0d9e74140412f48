"""Lines of the picture of handwriting follow the points of a track and end with its strokes."""

from __future__ import annotations

import numpy as np
import torch

from bench.handwriting_rows import make_lines, rows_chart
from bln_search.data.inputs import make_structured_inputs


def test_lines_are_sums_of_offsets_with_gaps_between_strokes():
    points = np.array([[1, 0, 0], [1, 2, 1], [3, 0, 0], [0, -1, 0], [9, 9, 0]])
    x, y = make_lines(points, np.array([True, True, True, True, False]))
    np.testing.assert_array_equal(x, [1, 2, np.nan, 5, 5])
    np.testing.assert_array_equal(y, [0, 2, np.nan, 2, 1])


def test_every_track_has_a_panel_in_the_column_of_its_kind():
    points, present = torch.rand(3, 4, 3), torch.ones(3, 4, dtype=torch.bool)
    real = make_structured_inputs({"points": points, "present": present}, 3)
    chart = rows_chart(real, (2 * points, present), titles=("left", "right"))
    assert len(chart.data) == 6
    assert len({trace.xaxis for trace in chart.data}) == 6
    np.testing.assert_allclose(chart.data[0].x[0], points[0, 0, 0])
    np.testing.assert_allclose(chart.data[3].x[0], 2 * points[0, 0, 0])
