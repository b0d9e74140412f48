"""Pen tracks of rows of digits: their points, ends of strokes and texts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bln_search.core.errors import DataError
from bln_search.core.tasks import TaskName
from bln_search.data import load_data_set
from bln_search_papers.ln import mnist_pen_tracks as tracks_module
from bln_search_papers.ln.infos import MNIST_PEN_TRACKS
from bln_search_papers.ln.mnist_pen_tracks import (
    CHARACTERS,
    DIGITS_PER_ROW,
    MOST_POINTS,
    NOISE,
    SPACING,
    decode_mnist_pen_tracks,
    make_offsets_of_joined_tracks,
    make_strokes_from_skeleton,
    make_tracks_of_digit_rows,
)
from bln_search_papers.ln.thinning import thin
from tests.support.mnist_files import make_small_mnist, use_small_mnist


class NoNoise:
    """A generator whose noise is zero."""

    def normal(self, _mean, _deviation, shape):
        return np.zeros(shape)


def stroke(*places):
    return np.array(places, np.float64)


def test_points_are_offsets_in_units_of_the_spacing_with_upward_y():
    left = [stroke((0, 13.5), (2, 13.5)), stroke((4, 9.5), (4, 11.5), (4, 13.5))]
    right = [stroke((0, 0), (0, 4))]
    points = make_offsets_of_joined_tracks([left, right], NoNoise())
    offsets = [[0, 0], [1, 0], [1, 2], [0, -1], [0, -1], [2, 6.75], [0, -2]]  # the second digit begins at 4 + 4 pixels
    np.testing.assert_allclose(points[:, :2], offsets)
    assert points[:, 2].tolist() == [0, 1, 0, 0, 1, 0, 1]


def test_noise_is_that_of_places():
    line = [stroke(*((2.0 * step, 13.5) for step in range(4_000)))]
    points = make_offsets_of_joined_tracks([line], np.random.default_rng(0))
    places = np.cumsum(points[:, :2], 0) * SPACING - np.stack([2.0 * np.arange(4_000), np.zeros(4_000)], 1)
    np.testing.assert_allclose(places.std(0), NOISE, rtol=0.05)
    np.testing.assert_allclose(np.mean(places[1:] * places[:-1], 0), 0, atol=0.003)


def find_track(offsets, tracks):
    """The index of the track that begins these offsets completely; None without one."""
    for index, track in enumerate(tracks):
        points = make_offsets_of_joined_tracks([track], NoNoise())[1:]
        if 0 < len(points) <= len(offsets) and np.allclose(offsets[: len(points)], points, atol=1e-5):
            return index
    return None


def test_rows_have_the_digits_that_their_tracks_draw(monkeypatch):
    digits = make_small_mnist()
    images, labels = digits.test_inputs[:30, 0], digits.test_class_indices[:30]
    monkeypatch.setattr(tracks_module, "NOISE", 0.0)
    rows = make_tracks_of_digit_rows(images, labels, seed=5)
    assert len(rows) == 30 // DIGITS_PER_ROW
    tracks = [make_strokes_from_skeleton(skeleton) for skeleton in thin(images > 127)]
    used = []
    for row in rows:
        number = row["present"].sum()
        assert row["present"][:number].all()
        assert not row["points"][number:].any()
        drawn = row["points"][:number]
        # digits are found by their offsets without the first one of each; the last digit may be cut
        chosen, start = [], 0
        while (match := find_track(drawn[start + 1 :], tracks)) is not None:
            chosen.append(match)
            start += sum(map(len, tracks[match]))
        assert len(chosen) >= DIGITS_PER_ROW - 2
        assert labels[chosen].tolist() == row["text"][: len(chosen)].tolist()
        used += chosen
    assert len(used) == len(set(used))


def test_rows_are_determined_by_the_seed_and_cut_at_the_largest_number_of_points(monkeypatch):
    digits = make_small_mnist()
    images, labels = digits.test_inputs[:40, 0], digits.test_class_indices[:40]
    rows = make_tracks_of_digit_rows(images, labels, seed=0)
    np.testing.assert_array_equal(rows, make_tracks_of_digit_rows(images, labels, seed=0))
    assert not np.array_equal(rows, make_tracks_of_digit_rows(images, labels, seed=1))
    monkeypatch.setattr(tracks_module, "MOST_POINTS", 30)
    cut = make_tracks_of_digit_rows(images, labels, seed=0)
    assert (cut["present"].sum(1) == 30).all()
    np.testing.assert_array_equal(cut["points"][:, :30], rows["points"][:, :30])


def test_the_data_set_has_two_splits_without_labels(monkeypatch):
    use_small_mnist(monkeypatch)
    data = decode_mnist_pen_tracks(lambda _: b"")
    replace(data, task=TaskName.DENSITY).check()
    assert (len(data.train_inputs), len(data.test_inputs)) == (1_437 // 5, 360 // 5)
    assert data.train_labels.shape == (1_437 // 5, 0)
    assert data.train_inputs["points"].shape[1:] == (MOST_POINTS, 3)
    assert data.train_inputs["text"].max() < CHARACTERS
    assert set(np.unique(data.train_inputs["points"][:, :, 2])) == {0, 1}


@pytest.mark.slow
def test_rows_of_mnist_have_the_promised_number_and_length(real_data):
    data = load_data_set("mnist_pen_tracks", real_data)
    assert MNIST_PEN_TRACKS.examples == (len(data.train_inputs), len(data.test_inputs))
    lengths = data.train_inputs["present"].sum(1)
    assert (lengths < MOST_POINTS).mean() == pytest.approx(0.1, abs=0.01)


def test_missing_files_are_one_error(tmp_path):
    with pytest.raises(DataError, match="train-images"):
        load_data_set("mnist_pen_tracks", tmp_path)
