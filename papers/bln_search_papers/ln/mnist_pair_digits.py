"""Pairs of MNIST digits with the digits that they show as labels: one label or two. It is not a published data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bln_search.data import DataFormat, DataSet, PublishedFile
from bln_search_papers.ln import mnist_pairs

LABELS = tuple(str(digit) for digit in range(10))


def decode_mnist_pair_digits(read: Callable[[PublishedFile], bytes]) -> DataSet:
    """Return the data set; images (n, 1, 28, 56)."""
    pairs = mnist_pairs.decode_mnist_pairs(read)
    return replace(
        pairs,
        name="mnist_pair_digits",
        classes=LABELS,
        train_labels=encode_multi_hot_digit_labels(pairs.train_class_indices),
        test_labels=encode_multi_hot_digit_labels(pairs.test_class_indices),
    )


def encode_multi_hot_digit_labels(classes: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return for classes 10a + b (n,) whether a pair shows each digit, (n, 10)."""
    labels = np.zeros((len(classes), 10), np.uint8)
    rows = np.arange(len(classes))
    labels[rows, classes // 10] = 1
    labels[rows, classes % 10] = 1
    return labels


ENTRY = replace(
    mnist_pairs.ENTRY,
    name="mnist_pair_digits",
    about="the images of mnist_pairs, with the digits that they show as labels",
    classes=LABELS,
    decode=decode_mnist_pair_digits,
    format=DataFormat((1, 28, 56), len(LABELS)),
)
