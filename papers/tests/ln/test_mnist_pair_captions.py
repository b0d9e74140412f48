"""Captions of pairs of digits: what they say, and which share a meaning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bln_search.core.errors import DataError
from bln_search.data.catalog import load_data_set
from bln_search_papers.ln.mnist_pair_captions import (
    VOCABULARY,
    compute_width_and_slant_thresholds,
    decode_mnist_pair_captions,
    make_caption,
    make_captioned_inputs_and_labels,
    measure_grey_value_and_slant,
)
from tests.support.mnist_files import make_small_mnist, use_small_mnist


def words_of(caption):
    return " ".join(VOCABULARY[token_id - 1] for token_id in caption if token_id)


def stroke(slope, width=1):
    """An image (1, 28, 28) of a stroke whose column grows by `slope` in each row."""
    image = np.zeros((1, 28, 28), np.uint8)
    for row in range(6, 22):
        column = round(14 + slope * (row - 14))
        image[0, row, column : column + width] = 255
    return image


def test_width_and_slant_of_strokes():
    images = np.stack([stroke(0), stroke(-0.5), stroke(0.5), stroke(0, 3)])
    upright, right, left, thick = measure_grey_value_and_slant(images)
    assert upright[1] == pytest.approx(0, abs=1e-12)
    assert right[1] == pytest.approx(-0.5, abs=0.03)
    assert left[1] == pytest.approx(0.5, abs=0.03)
    assert thick[0] == pytest.approx(3 * upright[0])


def test_a_caption_names_both_digits_and_their_looks():
    thin_leaning_three, thick_upright_seven = 9 * 3, 9 * 7 + 8
    template = "a {right} to the right of a {left}"
    caption = make_caption(thin_leaning_three, thick_upright_seven, template)
    assert caption == "a thick upright seven to the right of a thin leaning three"


def test_thirds_hold_a_third_of_each_digit():
    digits = make_small_mnist()
    thirds = compute_width_and_slant_thresholds(digits.train_inputs, digits.train_class_indices)
    values = measure_grey_value_and_slant(digits.train_inputs)[digits.train_class_indices == 4]
    shares = [(values < limit).mean(0) for limit in thirds[4].T]
    np.testing.assert_allclose(shares, [[1 / 3] * 2, [2 / 3] * 2], atol=0.02)


def test_equal_labels_are_equal_meanings():
    digits = make_small_mnist()
    images = np.concatenate([digits.train_inputs, digits.train_inputs[::-1]], axis=3)
    classes = 10 * digits.train_class_indices + digits.train_class_indices[::-1]
    inputs, labels = make_captioned_inputs_and_labels(
        images, classes, compute_width_and_slant_thresholds(digits.train_inputs, digits.train_class_indices)
    )

    captions = [words_of(caption) for caption in inputs["caption"]]

    by_template = {}
    for index, (caption, label) in enumerate(zip(captions, labels, strict=True)):
        assert by_template.setdefault((index % 4, label), caption) == caption
    assert len({(index % 4, caption) for index, caption in enumerate(captions)}) == len(by_template)
    np.testing.assert_array_equal(inputs["image"], images)


@pytest.mark.slow
def test_the_data_set_has_the_promised_size_and_types(monkeypatch):
    use_small_mnist(monkeypatch)
    data = decode_mnist_pair_captions(lambda _: b"")
    replace(data, task="retrieval").check()
    assert (len(data.train_labels), len(data.test_labels)) == (50_000, 1_000)
    assert data.vocabulary == len(VOCABULARY) + 1 > data.train_inputs["caption"].max()


def test_missing_files_are_one_error(tmp_path):
    with pytest.raises(DataError, match="train-images"):
        load_data_set("mnist_pair_captions", tmp_path)
