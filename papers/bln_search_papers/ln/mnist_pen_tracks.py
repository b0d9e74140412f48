"""Tracks of a pen that writes rows of MNIST digits: a stand-in for handwriting recorded with a pen.

Digits are thinned, their lines are followed by a pen, and five digits make a row. The order of strokes is a rule, not
that of the writer. Training rows consist of training digits of MNIST, test rows of its test digits, each digit once.

Rows are cut at one length, as in the source's experiment, so that statistics of a time step are those of almost all
examples of a mini-batch. Source: Ba, Kiros & Hinton 2016, Layer Normalization, section 6.5.

Offsets have a density only if they are no multiples of a pixel. So each point is moved by normal noise with a
deviation of `NOISE` pixels, drawn once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bln_search.data import DataFormat, DataSet, PublishedFile, get_input_fields, mnist
from bln_search_papers.ln.pen_strokes import Stroke, resample, smooth, trace_strokes
from bln_search_papers.ln.thinning import thin

DIGITS_PER_ROW = 5
CHARACTERS = 10
"""Number of different characters of a text."""

MOST_POINTS = 80
"""Points of a row; those after them are left out. A row has 95 on average before; one in ten has fewer than 80."""

SPACING = 2.0
"""Distance of neighbouring points of a stroke and unit of offsets, in pixels."""

NOISE = 0.2
"""Standard deviation of the place of a point in both directions, in pixels."""

_GAP = 4.0  # pixels between digits
_DARKEST_BACKGROUND = 127
_MIDDLE = 13.5  # of an image, in pixels

FIELDS = np.dtype(
    [("points", "f4", (MOST_POINTS, 3)), ("present", "?", (MOST_POINTS,)), ("text", "u2", (DIGITS_PER_ROW,))]
)

REMARKS = ("pen tracks made from thinned MNIST digits, not recorded: figures compare with no publication",)


def decode_mnist_pen_tracks(read: Callable[[PublishedFile], bytes]) -> DataSet:
    """Return the data set, of inputs without labels (n, 0).

    Fields of an example: `points` (MOST_POINTS, 3), offsets to the right and upwards from the point before in units of
    `SPACING`, and 1 at the last point of a stroke; `present` (MOST_POINTS,), whether there is a point; `text`
    (DIGITS_PER_ROW,), the digits.
    """
    digits = mnist.decode_mnist(read)
    train = make_tracks_of_digit_rows(digits.train_inputs[:, 0], digits.train_class_indices, seed=0)
    test = make_tracks_of_digit_rows(digits.test_inputs[:, 0], digits.test_class_indices, seed=1)
    no_labels = [np.zeros((len(tracks), 0), np.int64) for tracks in (train, test)]
    return DataSet("mnist_pen_tracks", (), train, no_labels[0], test, no_labels[1], scale=1.0, remarks=REMARKS)


def make_tracks_of_digit_rows(images: NDArray[Any], labels: NDArray[np.int64], seed: int) -> NDArray[np.void]:
    """Return the tracks of rows of digits, a structured array (n // DIGITS_PER_ROW,).

    Args:
        images: of digits, (n, h, w), bytes.
        labels: digits, (n,).
        seed: of the order of the digits and of the noise.
    """
    random = np.random.default_rng(seed)
    order = random.permutation(len(images) // DIGITS_PER_ROW * DIGITS_PER_ROW).reshape(-1, DIGITS_PER_ROW)
    tracks = [make_strokes_from_skeleton(skeleton) for skeleton in thin(images > _DARKEST_BACKGROUND)]
    rows = np.zeros(len(order), FIELDS)
    rows["text"] = labels[order]
    for row, chosen in zip(rows, order, strict=True):
        points = make_offsets_of_joined_tracks([tracks[index] for index in chosen], random)[:MOST_POINTS]
        row["points"][: len(points)] = points
        row["present"][: len(points)] = True
    return rows


def make_strokes_from_skeleton(skeleton: NDArray[np.bool_]) -> list[Stroke]:
    """Return the smoothed and resampled strokes of a skeleton (h, w), in pixels, with its left end at 0."""
    strokes = [resample(smooth(stroke), SPACING) for stroke in trace_strokes(skeleton)]
    left = min((stroke[:, 0].min() for stroke in strokes), default=0.0)
    return [stroke - np.array([left, 0.0]) for stroke in strokes]


def make_offsets_of_joined_tracks(
    tracks: Sequence[Sequence[Stroke]], random: np.random.Generator
) -> NDArray[np.float64]:
    """Return offsets and ends of strokes (points, 3) of digits one after the other.

    The first offset is from the left end of the row, in the middle between top and bottom.
    """
    strokes, left = [], 0.0
    for track in tracks:
        strokes += [stroke + np.array([left, 0.0]) for stroke in track]
        left = max((stroke[:, 0].max() for stroke in strokes), default=0.0) + _GAP
    if not strokes:
        return np.zeros((0, 3))
    places = np.concatenate([[(0.0, _MIDDLE)], *strokes])
    places[1:] += random.normal(0, NOISE, (len(places) - 1, 2))
    ends = np.zeros(len(places) - 1)
    ends[np.cumsum([len(stroke) for stroke in strokes]) - 1] = 1
    return np.column_stack([np.diff(places, axis=0) / (SPACING, -SPACING), ends])


ENTRY = replace(
    mnist.ENTRY,
    name="mnist_pen_tracks",
    about="12,000 + 2,000 tracks of a pen along five thinned digits of mnist, with the digits as their text",
    classes=(),
    decode=decode_mnist_pen_tracks,
    remarks=REMARKS,
    format=DataFormat(get_input_fields(FIELDS), 0),
)
