"""Pairs of MNIST digits: a hundred classes, made from the files of MNIST. It is not a published data set.

It stands in for CIFAR-100 where that is missing: as many classes and as many examples of each. An example is the image
of one digit beside that of another; its class is the two digits. Training pairs consist of training images of MNIST,
test pairs of its test images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import DataError
from bln_search.data import DataFormat, DataSet, PublishedFile, mnist

CLASSES = tuple(f"{left}{right}" for left in range(10) for right in range(10))
TRAIN_PER_CLASS, TEST_PER_CLASS = 500, 100
REMARKS = ("pairs of MNIST digits, not a published data set: its figures compare with no publication",)


def decode_mnist_pairs(read: Callable[[PublishedFile], bytes]) -> DataSet:
    """Return the data set; images (n, 1, 28, 56)."""
    digits = mnist.decode_mnist(read)
    train_images, train_labels = make_digit_pairs(digits.train_inputs, digits.train_class_indices, TRAIN_PER_CLASS)
    test_images, test_labels = make_digit_pairs(digits.test_inputs, digits.test_class_indices, TEST_PER_CLASS)
    return DataSet("mnist_pairs", CLASSES, train_images, train_labels, test_images, test_labels, remarks=REMARKS)


def make_digit_pairs(
    images: NDArray[np.generic], labels: NDArray[np.int64], per_class: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return pairs (100·per_class, 1, 28, 56) and their classes, which alternate.

    Pair k of the digits a, b has the image 10k + b of all images of a on its left, and the image
    10(k + per_class/2) + a of all images of b on its right, counted cyclically. With at least 10·per_class images of
    each digit no image occurs twice on one side. There are no random numbers.

    Args:
        images: Images of digits, (n, 1, 28, 28).
        labels: Digits, (n,).
        per_class: Number of pairs of each class.

    Raises:
        DataError: a digit has no image.
    """
    of_digit = [np.flatnonzero(labels == digit) for digit in range(10)]
    missing = [digit for digit, indices in enumerate(of_digit) if not len(indices)]
    if missing:
        raise DataError(f"mnist_pairs: there is no image of the digit {missing[0]}: download the files of mnist again")
    pairs = np.arange(per_class)
    shift = 10 * (per_class // 2)
    left = np.stack([of_digit[a][(10 * pairs + b) % len(of_digit[a])] for a in range(10) for b in range(10)], axis=1)
    right = np.stack(
        [of_digit[b][(10 * pairs + shift + a) % len(of_digit[b])] for a in range(10) for b in range(10)], axis=1
    )
    joined = np.concatenate([images[left.ravel()], images[right.ravel()]], axis=3)
    return joined.astype(np.uint8, copy=False), np.tile(np.arange(len(CLASSES)), per_class)


ENTRY = replace(
    mnist.ENTRY,
    name="mnist_pairs",
    about="50,000 + 10,000 pairs of MNIST digits of a hundred classes, 28×56, made from the files of mnist",
    classes=CLASSES,
    decode=decode_mnist_pairs,
    remarks=REMARKS,
    format=DataFormat((1, 28, 56), len(CLASSES)),
)
