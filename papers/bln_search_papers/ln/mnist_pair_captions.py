"""Pairs of MNIST digits with captions made from templates: a stand-in for images with sentences of people.

A caption names both digits, and says of each whether it is thin or thick and whether it leans, among the digits of its
class. Captions with the same meaning have the same label, in whichever template.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from bln_search.data import DataFormat, DataSet, InputField, PublishedFile, mnist
from bln_search_papers.ln.mnist_pairs import make_digit_pairs

TRAIN_PER_CLASS, TEST_PER_CLASS = 500, 10
CAPTION_LENGTH = 14
PADDING = 0
"""Token id behind a short caption."""

_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_WIDTHS = ("thin", "", "thick")
_SLANTS = ("leaning", "", "upright")
_TEMPLATES = (
    "a {left} to the left of a {right}",
    "a {right} to the right of a {left}",
    "there is a {left} and then a {right}",
    "a {left} before a {right}",
)
VOCABULARY = tuple(
    sorted({word for text in (*_DIGITS, *_WIDTHS, *_SLANTS, *_TEMPLATES) for word in text.split() if "{" not in word})
)
"""Words by token id, from 1."""

_PARTS = 3
"""Thirds of the digits of a class, by their width or slant."""

REMARKS = ("captions made from templates for pairs of MNIST digits: figures compare with no publication",)


def decode_mnist_pair_captions(read: Callable[[PublishedFile], bytes]) -> DataSet:
    """Return the data set; `image` (1, 28, 56) and `caption` (14,) of each example, and the meaning of its caption."""
    digits = mnist.decode_mnist(read)
    thresholds = compute_width_and_slant_thresholds(digits.train_inputs, digits.train_class_indices)
    train_pairs = make_digit_pairs(digits.train_inputs, digits.train_class_indices, TRAIN_PER_CLASS)
    test_pairs = make_digit_pairs(digits.test_inputs, digits.test_class_indices, TEST_PER_CLASS)
    train, test = (make_captioned_inputs_and_labels(*pairs, thresholds) for pairs in (train_pairs, test_pairs))
    return DataSet("mnist_pair_captions", (), *train, *test, vocabulary=len(VOCABULARY) + 1, remarks=REMARKS)


def compute_width_and_slant_thresholds(images: NDArray[np.generic], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the limits between the thirds of each digit by width and by slant, (10, 2, 2)."""
    values = measure_grey_value_and_slant(images)
    quantiles = np.arange(1, _PARTS) / _PARTS
    return np.stack([np.quantile(values[labels == digit], quantiles, axis=0).T for digit in range(len(_DIGITS))])


def measure_grey_value_and_slant(images: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return the mean grey value of images (n, 1, h, w) and the slope of their columns over their rows, (n, 2).

    The slope is that of the regression of the column on the row of the pixels, weighted with their grey values; upright
    strokes have 0, strokes that lean to the right are below 0.
    """
    grey = images[:, 0].astype(np.float64)
    total = np.maximum(grey.sum((1, 2)), 1)
    rows, columns = (np.arange(length, dtype=np.float64) for length in grey.shape[1:])
    by_row, by_column = grey.sum(2), grey.sum(1)
    mean_row, mean_column = by_row @ rows / total, by_column @ columns / total
    covariance = (grey @ columns @ rows) / total - mean_row * mean_column
    variance = np.maximum(by_row @ rows**2 / total - mean_row**2, 1)
    return np.stack([grey.mean((1, 2)), covariance / variance], 1)


def make_captioned_inputs_and_labels(
    images: NDArray[np.uint8], classes: NDArray[np.int64], thresholds: NDArray[np.float64]
) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Return images with captions, a structured array (n,), and the meanings of the captions, (n,) int64.

    Args:
        images: pairs of digits, (n, 1, 28, 56).
        classes: both digits, 10·left + right, (n,).
        thresholds: limits between thirds, (10, 2, 2).
    """
    sides = [
        _describe_digits(half, digits, thresholds)
        for half, digits in zip(np.split(images, 2, axis=3), np.divmod(classes, 10), strict=True)
    ]
    labels = sides[0] * _count_descriptions() + sides[1]
    inputs = np.zeros(len(images), [("image", "u1", images.shape[1:]), ("caption", "u2", (CAPTION_LENGTH,))])
    inputs["image"] = images
    for index, (left, right) in enumerate(zip(*sides, strict=True)):
        words = make_caption(left, right, _TEMPLATES[index % len(_TEMPLATES)]).split()
        inputs["caption"][index, : len(words)] = [VOCABULARY.index(word) + 1 for word in words]
    return inputs, labels


def make_caption(left: int, right: int, template: str) -> str:
    """Return the caption of two described digits."""
    return " ".join(template.format(left=_describe(left), right=_describe(right)).split())


def _count_descriptions() -> int:
    return len(_DIGITS) * _PARTS * _PARTS


def _describe_digits(
    images: NDArray[np.uint8], digits: NDArray[np.int64], thresholds: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the description of each digit, 9·digit + 3·third by width + third by slant, (n,)."""
    thirds = (measure_grey_value_and_slant(images)[:, :, None] > thresholds[digits]).sum(2)
    described: NDArray[np.int64] = (digits * _PARTS + thirds[:, 0]) * _PARTS + thirds[:, 1]
    return described


def _describe(description: int) -> str:
    rest, slant = divmod(int(description), _PARTS)
    digit, width = divmod(rest, _PARTS)
    return f"{_WIDTHS[width]} {_SLANTS[slant]} {_DIGITS[digit]}"


ENTRY = replace(
    mnist.ENTRY,
    name="mnist_pair_captions",
    about="50,000 + 1,000 images of mnist_pairs with captions made from templates",
    classes=(),
    decode=decode_mnist_pair_captions,
    remarks=REMARKS,
    format=DataFormat(
        {"image": InputField((1, 28, 56), torch.float32), "caption": InputField((CAPTION_LENGTH,), torch.int64)},
        0,
        len(VOCABULARY) + 1,
    ),
)
