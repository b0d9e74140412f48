"""MNIST with pixels 0 and 1: each pixel is 1 with the probability of its grey value, drawn once.

The published binarization (Larochelle & Murray 2011) is another draw of the same distribution, so figures are close to
those of publications, but not on the same images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bln_search.data import DataFormat, DataSet, PublishedFile, mnist

REMARKS = ("MNIST binarized by an own draw: figures of publications are on other draws of the same images",)


def decode_binarized_mnist(read: Callable[[PublishedFile], bytes]) -> DataSet:
    """Return the data set; images (n, 1, 28, 28) of 0 and 1, without labels (n, 0)."""
    digits = mnist.decode_mnist(read)
    return replace(
        digits,
        name="mnist_binarized",
        classes=(),
        train_inputs=draw_binary_pixels(digits.train_inputs, seed=0),
        train_labels=np.zeros((len(digits.train_inputs), 0), np.int64),
        test_inputs=draw_binary_pixels(digits.test_inputs, seed=1),
        test_labels=np.zeros((len(digits.test_inputs), 0), np.int64),
        scale=1.0,
        remarks=REMARKS,
    )


def draw_binary_pixels(images: NDArray[np.generic], seed: int) -> NDArray[np.uint8]:
    """Return 1 with probability value/255 for each pixel of `images`, otherwise 0."""
    thresholds = np.random.default_rng(seed).integers(0, 255, images.shape, np.uint8)
    return (images.astype(np.uint8) > thresholds).astype(np.uint8)


ENTRY = replace(
    mnist.ENTRY,
    name="mnist_binarized",
    about="the images of mnist with pixels 0 and 1, drawn once",
    classes=(),
    decode=decode_binarized_mnist,
    remarks=REMARKS,
    format=DataFormat((1, 28, 28), 0),
)
