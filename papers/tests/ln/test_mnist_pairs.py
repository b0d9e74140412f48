"""Pairs of MNIST digits, and the digits that they show as labels."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.errors import DataError
from bln_search.data import load_data_set
from bln_search_papers.ln.mnist_pair_digits import encode_multi_hot_digit_labels
from bln_search_papers.ln.mnist_pairs import CLASSES, make_digit_pairs


def drawn_digits(n):
    """Images whose pixels have the number of the image, and their digits."""
    labels = np.arange(n, dtype=np.int64) * 7 % 10
    return np.broadcast_to(np.arange(n, dtype=np.uint8).reshape(n, 1, 1, 1), (n, 1, 28, 28)), labels


def test_pairs_have_the_classes_of_their_digits_in_equal_numbers():
    images, labels = drawn_digits(200)
    pairs, classes = make_digit_pairs(images, labels, 2)
    assert (pairs.shape, pairs.dtype) == ((200, 1, 28, 56), np.uint8)
    assert np.bincount(classes).tolist() == [2] * 100
    left, right = pairs[:, 0, 0, 0], pairs[:, 0, 0, -1]
    for a, b, label in zip(left, right, classes, strict=True):
        assert CLASSES[label] == f"{labels[a]}{labels[b]}"
    assert len(np.unique(left)) == len(np.unique(right)) == 200


def test_pairs_are_the_same_each_time():
    first, second = (make_digit_pairs(*drawn_digits(137), 3) for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])


def test_pairs_need_an_image_of_each_digit():
    images, labels = drawn_digits(50)
    with pytest.raises(DataError, match="no image of the digit 7"):
        make_digit_pairs(images, np.where(labels == 7, 8, labels), 1)


def test_mnist_pairs_are_made_of_each_split_of_mnist(real_data, tmp_path):
    mnist, pairs = (load_data_set(name, real_data, tmp_path) for name in ("mnist", "mnist_pairs"))
    assert (len(pairs.train_labels), len(pairs.test_labels)) == (50_000, 10_000)
    images = {split: {image.tobytes() for image in getattr(mnist, f"{split}_inputs")} for split in ("train", "test")}
    for split, digits in images.items():
        for pair in getattr(pairs, f"{split}_inputs")[::97]:
            assert {pair[..., :28].tobytes(), pair[..., 28:].tobytes()} <= digits
    assert not images["train"] & images["test"]


def test_digit_labels_are_the_digits_of_a_pair():
    labels = encode_multi_hot_digit_labels(np.array([7, 33, 90]))
    assert [np.flatnonzero(row).tolist() for row in labels] == [[0, 7], [3], [0, 9]]
