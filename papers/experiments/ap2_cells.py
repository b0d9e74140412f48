"""Cells of the AP2 paper's experiments, one for each data set, start and method: epochs, rows and learning rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import log, log10
from statistics import fmean
from typing import Any

from bench.documents.study_losses import Values
from bench.support.reporting import NotMeasuredError, load_result, read_result

OWN_ROWS = {"none": "---- -", "wn": "AA-- -", "bn": "TT-- moving", "ap2": "AA-- -"}
"""The row of each arm that its paper uses at inference; of BN that of evaluation mode."""

DECAY_STUDY = "ap2_weight_decay_mnist"

_SMALLEST_RISE = 1e-6
"""In place of a mean rise of 0, of which there is no logarithm; nats by epoch."""


@dataclass(frozen=True)
class Cell:
    """One cell: networks of one arm after one start, trained at the arm's best learning rate with every seed.

    Its methods raise `NotMeasuredError` if it is not measured.

    Attributes:
        data: The data set, as in the names of studies.
        start: The start.
        arm: The arm.
    """

    data: str
    start: str
    arm: str

    @property
    def study(self) -> str:
        """The name of the study."""
        return f"ap2_{self.data}_start_{self.start}"

    @property
    def is_measured(self) -> bool:
        """Whether the file of the study has the arm."""
        document = read_result(self.study)
        return document is not None and self.arm in document["result"]["arms"]

    @cached_property
    def saved(self) -> Mapping[str, Any]:
        """The arm in the file of the study."""
        if not self.is_measured:
            raise NotMeasuredError(f"{self.study}.json has no arm {self.arm}")
        arm: Mapping[str, Any] = load_result(self.study)["result"]["arms"][self.arm]
        return arm

    @property
    def log_rate(self) -> float:
        """log₁₀ of the learning rate that the search found."""
        return log10(self.saved["learning_rate"])

    @property
    def is_censored(self) -> bool:
        """Whether the best learning rate is the largest of the search, so that a larger one may be better."""
        largest = max(point["learning_rate"] for point in self.saved["search"])
        return bool(self.saved["learning_rate"] >= largest)

    def epochs(self, measure: str) -> list[dict[str, Any]]:
        """Return a measure of every epoch, each with its values by seed."""
        return list(self.saved["epochs"][measure])

    def at_last_epoch(self, measure: str) -> Values:
        """Return a measure of the last epoch by position of the seed."""
        return dict(enumerate(self.epochs(measure)[-1]["seeds"]))

    def rise(self, measure: str) -> Values:
        """Return by position of the seed the mean increase of a measure by epoch, decreases counted as 0."""
        return mean_rises(self.epochs(measure))

    def log_rise(self, measure: str) -> Values:
        """Return by position of the seed the natural logarithm of `rise`."""
        return {position: log(max(rise, _SMALLEST_RISE)) for position, rise in self.rise(measure).items()}

    def row(self, row: str | None = None, split: str = "validation", index: int = 0) -> Values:
        """Return the loss (index 0) or accuracy (1) of a row by seed.

        Args:
            row: Configuration and population estimate, `-` for none; by default that of `OWN_ROWS`.
            split: Split of the data.
            index: 0 for the loss, 1 for the accuracy.
        """
        by_seed = self.saved["rows"][row or OWN_ROWS[self.arm]][split]
        return {int(seed): values[index] for seed, values in by_seed.items()}

    def gap(self) -> Values:
        """Return by seed the loss on validation less that on training examples, in the own row."""
        validation, train = self.row(), self.row(split="train")
        return {seed: validation[seed] - train[seed] for seed in validation.keys() & train.keys()}


class DecayRun:
    """Networks of one arm in the study of weight decay.

    Args:
        arm: The arm.
        optimizer: `adam` or `sgd`.
        has_decay: Whether they were trained with weight decay.
    """

    def __init__(self, arm: str, optimizer: str, has_decay: bool) -> None:  # noqa: FBT001
        name = decay_run_name(arm, optimizer, has_decay=has_decay)
        self.saved: Mapping[str, Any] = load_result(DECAY_STUDY)["result"]["runs"][name]

    def last_loss(self, split: str = "validation") -> Values:
        """Return the loss in the own row by seed."""
        return {int(seed): values[0] for seed, values in self.saved["rows"][split].items()}

    def last_norm(self) -> Values:
        """Return the norm of a unit's weights in the first layer after the last epoch by position of the seed."""
        return dict(enumerate(self.saved["weight_norm"][-1]["seeds"]))

    def training_rise(self) -> Values:
        """Return by position of the seed the mean increase of the training loss by epoch, decreases counted as 0."""
        return mean_rises(self.saved["training_loss"])


def decay_run_name(arm: str, optimizer: str, *, has_decay: bool) -> str:
    """Return the name of a run in the file of the study of weight decay."""
    return f"{arm}, {optimizer}, {'decay' if has_decay else 'no decay'}"


def rate_mark(data: str) -> str:
    """Return whether BN's best learning rate after start BN is about ten times that after start AP2.

    The searches give one value for each start: it holds from a ratio of 10^0.5 on, does not hold up to 1, and cannot
    be told in between. A censored rate is a lower bound.
    """
    after_bn, after_ap2 = (Cell(data, start, "bn") for start in ("bn", "ap2"))
    if not (after_bn.is_measured and after_ap2.is_measured):
        return "not measured"
    difference = after_bn.log_rate - after_ap2.log_rate
    if difference >= 0.5 and not after_ap2.is_censored:
        return "holds"
    return "does not hold" if difference <= 0 and not after_bn.is_censored else "cannot tell"


def mean_rises(epochs: Sequence[Mapping[str, Any]]) -> Values:
    """Return by position of the seed the mean increase from one epoch to the next, decreases counted as 0."""
    by_seed = zip(*(epoch["seeds"] for epoch in epochs), strict=True)
    return {
        position: fmean(max(0.0, after - before) for before, after in pairwise(values))
        for position, values in enumerate(by_seed)
    }
