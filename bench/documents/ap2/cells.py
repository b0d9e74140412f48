"""Cells of the AP2 paper's experiments, one for each data set, start and method: epochs, rows and learning rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import log10
from typing import Any

from bench.documents.papers.seed_values import Values
from bench.support.reporting import read_result

STARTS = ("none", "bn", "ap2")
ARMS = ("none", "wn", "bn", "ap2")
NAMES = {"none": "none", "wn": "WN", "bn": "BN", "ap2": "AP2"}
DATA = {
    "mnist": "MNIST",
    "noisy_mnist": "noisy MNIST",
    "noisy_cifar10_small": "noisy CIFAR-10, small",
    "noisy_cifar10": "noisy CIFAR-10",
}
"""Data sets of the experiments, as in the names of studies, with their titles."""

OWN_ROWS = {"none": "---- -", "wn": "AA-- -", "bn": "TT-- moving", "ap2": "AA-- -"}
"""The row of each arm that its paper uses at inference; of BN that of evaluation mode."""

BATCH_MODE = "FF-- -"


def study_name(data: str, start: str) -> str:
    """Return the name of a study and of its file in bench/results."""
    return f"ap2_{data}_start_{start}"


@dataclass(frozen=True)
class Cell:
    """One cell: networks of one arm after one start, trained at the arm's best learning rate with every seed.

    Attributes:
        data: The data set, a key of `DATA`.
        start: The start.
        arm: The arm.
    """

    data: str
    start: str
    arm: str

    @property
    def study(self) -> str:
        """The name of the study."""
        return study_name(self.data, self.start)

    @cached_property
    def saved(self) -> Mapping[str, Any] | None:
        """The arm in the file of the study; None if it is not measured."""
        document = read_result(self.study)
        arm: Mapping[str, Any] | None = None if document is None else document["result"]["arms"].get(self.arm)
        return arm

    @property
    def log_rate(self) -> float | None:
        """log₁₀ of the learning rate that the search found; None if it is not measured."""
        return None if self.saved is None else log10(self.saved["learning_rate"])

    def epochs(self, measure: str) -> list[dict[str, Any]]:
        """Return a measure of every epoch, each with its values by seed; empty if it is not measured."""
        return [] if self.saved is None else list(self.saved["epochs"][measure])

    def at_last_epoch(self, measure: str) -> Values | None:
        """Return a measure of the last epoch by seed."""
        by_seed = self._by_seed(measure)
        return None if by_seed is None else {seed: values[-1] for seed, values in by_seed.items()}

    def rise(self, measure: str) -> Values | None:
        """Return by seed the mean increase of a measure from one epoch to the next, decreases counted as 0."""
        by_seed = self._by_seed(measure)
        return None if by_seed is None else {seed: mean_rise(values) for seed, values in by_seed.items()}

    def row(self, row: str | None = None, split: str = "validation", index: int = 0) -> Values | None:
        """Return the loss (index 0) or accuracy (1) of a row by seed.

        Args:
            row: Configuration and population estimate, `-` for none; by default that of `OWN_ROWS`.
            split: Split of the data.
            index: 0 for the loss, 1 for the accuracy.
        """
        rows = {} if self.saved is None else self.saved["rows"]
        by_seed = rows.get(row or OWN_ROWS[self.arm], {}).get(split)
        return None if by_seed is None else {int(seed): values[index] for seed, values in by_seed.items()}

    def gap(self) -> Values | None:
        """Return by seed the loss on validation less that on training examples, in the own row."""
        validation, train = self.row(), self.row(split="train")
        if validation is None or train is None:
            return None
        return {seed: validation[seed] - train[seed] for seed in validation.keys() & train.keys()}

    def _by_seed(self, measure: str) -> dict[int, list[float]] | None:
        epochs = self.epochs(measure)
        if not epochs:
            return None
        columns = zip(*(epoch["seeds"] for epoch in epochs), strict=True)
        return {position: list(values) for position, values in enumerate(columns)}


def mean_rise(values: Sequence[float]) -> float:
    """Return the mean increase from one value to the next, decreases counted as 0."""
    steps = [max(0.0, after - before) for before, after in pairwise(values)]
    return sum(steps) / len(steps)
