"""How well class probabilities agree with what happens: calibration error, Brier score and negative log-likelihood.

Every function takes logits (n, classes) and labels (n,). Logarithms of probabilities are logits too. Values are
computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.core.errors import DataError
from bln_search.core.metric_description import BRIER, ECE, NLL
from bln_search.tasks.metrics import StreamingMetric

BINS = 15
"""Bins of the expected calibration error in Guo et al. 2017."""


def negative_log_likelihoods(logits: Tensor, labels: Tensor) -> Tensor:
    """Return -ln p of the label of each example, (n,), in nats.

    Raises:
        DataError: These are not logits and labels.
    """
    _check_logits_and_labels(logits, labels)
    return F.nll_loss(logits.double().log_softmax(1), labels, reduction="none")


def brier_scores(logits: Tensor, labels: Tensor) -> Tensor:
    """Return Σ (p_k - y_k)² over the classes of each example, (n,), from 0 to 2; y is 1 for the label, otherwise 0.

    Source: Brier 1950, Verification of Forecasts Expressed in Terms of Probability, Equation 2.

    Raises:
        DataError: These are not logits and labels.
    """
    _check_logits_and_labels(logits, labels)
    one_hot = F.one_hot(labels, logits.shape[1])
    return (logits.double().softmax(1) - one_hot).square().sum(1)


class ExpectedCalibrationError:
    """Expected calibration error: Σ n_b/n · |accuracy of bin b - mean confidence of bin b|.

    The confidence of an example is its largest class probability. Bins have equal widths and contain their upper limit.

    Source: Guo et al. 2017, On Calibration of Modern Neural Networks, Equations 2 and 3.

    Args:
        bins: Number of bins.

    Attributes:
        sums: (3, bins), float64: examples, sum of confidences and correct predictions of each bin.
    """

    def __init__(self, bins: int = BINS) -> None:
        self._bins = bins
        self.reset()

    def reset(self) -> None:
        """Forget all examples."""
        self.sums = torch.zeros(3, self._bins, dtype=torch.float64)

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Add logits (n, classes) and labels (n,) of a mini-batch. Raises DataError for anything else."""
        _check_logits_and_labels(outputs, targets)
        confidence, predicted = outputs.double().softmax(1).max(1)
        limits = torch.arange(1, self._bins, dtype=torch.float64, device=confidence.device) / self._bins
        members = F.one_hot(torch.bucketize(confidence, limits), self._bins).double()
        values = torch.stack([torch.ones_like(confidence), confidence, (predicted == targets).double()])
        self.sums = self.sums.to(members.device) + values @ members  # a product is deterministic on every device

    def merge(self, other: ExpectedCalibrationError) -> None:
        """Add the examples of another part, with as many bins."""
        self.sums = self.sums + other.sums.to(self.sums.device)

    def compute(self) -> float:
        """Return the value; NaN without examples."""
        examples, confidences, correct = self.sums
        return float((correct - confidences).abs().sum() / examples.sum())


class MeanOfExamples:
    """The mean over all examples of a value of each example.

    Args:
        function: From logits (n, classes) and labels (n,) to values (n,).
    """

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        self._function = function
        self.reset()

    def reset(self) -> None:
        """Forget all examples."""
        self._n, self._sum = 0, torch.zeros((), dtype=torch.float64)

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Add logits (n, classes) and labels (n,) of a mini-batch."""
        values = self._function(outputs, targets)
        self._sum = self._sum.to(values.device) + values.sum()
        self._n += len(values)

    def compute(self) -> float:
        """Return the value; NaN without examples."""
        return float(self._sum) / self._n if self._n else math.nan


CALIBRATION_METRICS: Mapping[str, Callable[[], StreamingMetric]] = {
    ECE.name: ExpectedCalibrationError,
    BRIER.name: lambda: MeanOfExamples(brier_scores),
    NLL.name: lambda: MeanOfExamples(negative_log_likelihoods),
}
"""What makes the object of each metric, by the name of the metric."""


def _check_logits_and_labels(logits: Any, labels: Any) -> None:
    """Raise DataError unless these are logits (n, classes) and labels (n,)."""
    for name, values in (("outputs", logits), ("labels", labels)):
        if not isinstance(values, Tensor):
            raise DataError(f"calibration is that of tensors, the {name} are {type(values).__name__}")
    if logits.ndim != 2 or not logits.is_floating_point() or not logits.shape[1]:
        raise DataError(
            f"calibration is that of logits (examples, classes), not of {logits.dtype} of shape {tuple(logits.shape)}"
        )
    if labels.dtype != torch.int64 or labels.shape != logits.shape[:1]:
        raise DataError(
            f"labels are {labels.dtype} of shape {tuple(labels.shape)}: one class of type int64 for each of "
            f"{len(logits)} examples is required"
        )
    if labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) < logits.shape[1]:
        raise DataError(
            f"labels are from {int(labels.min())} to {int(labels.max())}, the network has {logits.shape[1]} outputs: "
            f"classes are numbered from 0 to {logits.shape[1] - 1}"
        )
