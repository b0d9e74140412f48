"""Digits of scikit-learn in the place of MNIST, for tests without its files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bln_search.data import load_data_set, mnist
from bln_search.data.dataset import DataSet


def make_small_mnist() -> DataSet:
    """The 1,797 digits of scikit-learn, enlarged to 28×28."""
    digits = load_data_set("digits", Path("unused"))

    def enlarge(images: np.ndarray) -> np.ndarray:
        grey = np.kron(images.astype(np.float64) * (255 / 16), np.ones((1, 1, 3, 3)))
        return np.pad(grey, ((0, 0), (0, 0), (2, 2), (2, 2))).astype(np.uint8)

    return DataSet(
        "mnist",
        mnist.CLASSES,
        enlarge(digits.train_inputs),
        digits.train_labels,
        enlarge(digits.test_inputs),
        digits.test_labels,
    )


def use_small_mnist(patch: pytest.MonkeyPatch) -> None:
    """Let data sets made from the files of MNIST be made from these digits."""
    patch.setattr(mnist, "decode_mnist", lambda _read: make_small_mnist())
