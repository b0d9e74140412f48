"""Strokes of a pen: which pixels they cover, in which order, and the distances of their points."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search_papers.ln.pen_strokes import SHORTEST_STROKE, resample, smooth, trace_strokes
from bln_search_papers.ln.thinning import thin
from tests.support.mnist_files import make_small_mnist


def skeleton(*rows):
    """An image of `#` and other characters."""
    return np.array([[character == "#" for character in row] for row in rows])


def test_a_line_is_followed_from_its_upper_end():
    (stroke,) = trace_strokes(skeleton("...#.", "..#..", ".#...", ".####"))
    assert stroke.tolist() == [[3, 0], [2, 1], [1, 2], [1, 3], [2, 3], [3, 3], [4, 3]]


def test_the_pen_goes_straight_over_a_crossing():
    strokes = trace_strokes(skeleton("..#..", "..#..", "#####", "..#..", "..#.."))
    assert strokes[0].tolist() == [[2, row] for row in range(5)]
    pixels = {tuple(place) for stroke in strokes for place in stroke.tolist()}
    assert pixels <= {(column, 2) for column in range(5)} | {(2, row) for row in range(5)}


def test_a_closed_line_is_one_stroke_from_its_top():
    (stroke,) = trace_strokes(skeleton(".##.", "#..#", "#..#", ".##."))
    assert stroke[0].tolist() == [1, 0]
    assert len(stroke) == 8
    assert (np.abs(np.diff(stroke, axis=0)).max(1) == 1).all()


def test_columns_at_opposite_edges_are_no_neighbours():
    strokes = trace_strokes(skeleton("#..#", "#..#", "#..#"))
    assert [stroke[:, 0].tolist() for stroke in strokes] == [[0, 0, 0], [3, 3, 3]]


def test_remainders_of_junctions_are_left_out_but_a_dot_alone_is_kept():
    assert [stroke.tolist() for stroke in trace_strokes(skeleton("...", ".#.", "..."))] == [[[1, 1]]]
    assert trace_strokes(skeleton("..")) == []


def test_strokes_of_digits_pass_every_pixel_within_two_pixels_and_none_twice():
    images = thin(make_small_mnist().test_inputs[:100, 0] > 127)
    for image in images:
        strokes = trace_strokes(image)
        places = [tuple(place) for stroke in strokes for place in stroke.astype(int).tolist()]
        assert len(places) == len(set(places))
        assert all(image[row, column] for column, row in places)
        distances = np.argwhere(image)[:, None, ::-1] - np.array(places)
        assert np.abs(distances).max(2).min(1).max() <= 2
        assert all(len(stroke) >= SHORTEST_STROKE for stroke in strokes)


def test_smoothing_averages_five_places_and_keeps_ends():
    random = np.random.default_rng(0)
    stroke = random.normal(size=(9, 2))
    smoothed = smooth(stroke)
    np.testing.assert_array_equal(smoothed[[0, -1]].round(12), stroke[[0, -1]].round(12))
    np.testing.assert_allclose(smoothed[1], stroke[:3].mean(0))
    np.testing.assert_allclose(smoothed[4], stroke[2:7].mean(0))


@pytest.mark.parametrize(("length", "segments"), [(0.4, 1), (2.0, 1), (7.1, 4), (40, 20)])
def test_points_are_equally_far_apart_along_a_stroke(length, segments):
    stroke = np.array([[1.0, 2.0], [1.0 + 0.3 * length, 2.0], [1.0 + 0.3 * length, 2.0 + 0.7 * length]])
    points = resample(stroke, 2.0)
    assert len(points) == segments + 1
    np.testing.assert_allclose(points[[0, -1]], stroke[[0, -1]])
    along = np.abs(points - stroke[0]).sum(1)  # of an L
    np.testing.assert_allclose(np.diff(along), length / segments)


def test_a_dot_is_one_point():
    np.testing.assert_array_equal(resample(np.array([[3.0, 4.0]]), 2.0), [[3.0, 4.0]])
