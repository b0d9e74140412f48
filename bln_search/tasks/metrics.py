"""Metrics over all examples of a split, accumulated in float64 from one mini-batch after another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.core.tasks import NO_CLASS
from bln_search.tasks.losses import reshape_targets_like_outputs


class StreamingMetric(Protocol):
    """A metric that takes one mini-batch after another. Its memory is independent of the number of examples."""

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Add outputs (n, ...) and targets (n, ...) of a mini-batch."""

    def compute(self) -> float | Tensor | Mapping[str, float]:
        """Return the value over all examples since the last reset, NaN where it has none; or several values by name."""

    def reset(self) -> None:
        """Forget all examples."""


class R2Score:
    """Coefficient of determination over all numbers: 1 − Σ(y − ŷ)² / Σ(y − ȳ)².

    ȳ is the mean of each number of an example over the split. The sums are over examples and numbers, as
    `sklearn.metrics.r2_score` with `multioutput="variance_weighted"`. Targets are standardized, so each number has the
    weight of its variance in units of its training variance.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all examples."""
        self._n = 0
        self._squared_errors = self._mean = self._squared_deviations = torch.zeros((), dtype=torch.float64)

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Add outputs and targets, (n, numbers). Sums of squares are merged as by Chan, Golub and LeVeque (1983)."""
        y = reshape_targets_like_outputs(targets, outputs).double().flatten(1)
        m, total = len(y), self._n + len(y)
        mean = y.mean(0)
        distance = mean - self._mean.to(y.device)
        self._squared_errors = self._squared_errors.to(y.device) + (y - outputs.double().flatten(1)).square().sum()
        self._squared_deviations = (
            self._squared_deviations.to(y.device)
            + (y - mean).square().sum()
            + distance.square().sum() * (self._n * m / total)
        )
        self._mean, self._n = self._mean.to(y.device) + distance * (m / total), total

    def compute(self) -> float:
        """Return the value; NaN where all targets are equal."""
        total = float(self._squared_deviations)
        return 1 - float(self._squared_errors) / total if total else math.nan


class MeanAbsoluteError:
    """Mean of |y − ŷ| over all examples and numbers, in the units of the data.

    Args:
        deviation: by which targets were divided when they were standardized, (1, numbers); None for targets as they
            are.
    """

    def __init__(self, deviation: Tensor | None = None) -> None:
        self._deviation = torch.ones(1, 1, dtype=torch.float64) if deviation is None else deviation.double()
        self.reset()

    def reset(self) -> None:
        """Forget all examples."""
        self._n, self._sum = 0, torch.zeros((), dtype=torch.float64)

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Add outputs and targets, (n, numbers)."""
        errors = (reshape_targets_like_outputs(targets, outputs).double() - outputs.double()).flatten(1).abs()
        self._sum = self._sum.to(errors.device) + (errors * self._deviation.to(errors.device).reshape(1, -1)).sum()
        self._n += errors.numel()

    def compute(self) -> float:
        """Return the value; NaN without examples."""
        return float(self._sum) / self._n if self._n else math.nan


class MultiLabelF1Score:
    """F1 score, 2·TP / (2·TP + FP + FN), of the labels of a multi-label task: a label is predicted by a logit above 0.

    Args:
        macro: whether to compute the score of each label and average them; otherwise counts are added over the labels.
            A label without true and predicted examples has the score 0, as with `zero_division=0` in scikit-learn.
    """

    def __init__(self, *, macro: bool) -> None:
        self._macro = macro
        self.reset()

    def reset(self) -> None:
        """Forget all examples."""
        self._hits = self._predicted_and_true = torch.zeros((), dtype=torch.int64)

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Add logits and targets, (n, labels)."""
        true = reshape_targets_like_outputs(targets, outputs).flatten(1) > 0
        predicted = outputs.flatten(1) > 0
        self._hits = self._hits.to(true.device) + (true & predicted).sum(0)
        self._predicted_and_true = self._predicted_and_true.to(true.device) + true.sum(0) + predicted.sum(0)

    def compute(self) -> float:
        """Return the value; NaN without examples."""
        if self._hits.ndim == 0:
            return math.nan
        return _f1(self._hits, self._predicted_and_true, macro=self._macro)


class TokenMacroF1Score:
    """Mean over classes of the F1 score of tokens that have a class; the most probable class is predicted.

    Classes that are neither a target nor predicted do not count, as in scikit-learn.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all examples."""
        self._hits = self._predicted_and_true = torch.zeros((), dtype=torch.int64)

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Add logits (n, tokens, classes) and targets (n, tokens)."""
        predicted, true = _predictions_and_classes(outputs, targets)

        def count(classes: Tensor) -> Tensor:
            return torch.bincount(classes, minlength=outputs.shape[-1])

        self._hits = self._hits.to(true.device) + count(true[true == predicted])
        self._predicted_and_true = self._predicted_and_true.to(true.device) + count(true) + count(predicted)

    def compute(self) -> float:
        """Return the value; NaN without a token that has a class."""
        present = self._predicted_and_true > 0
        if not bool(present.any()):
            return math.nan
        return _f1(self._hits[present], self._predicted_and_true[present], macro=True)


class TokenAccuracy:
    """Fraction of the tokens that have a class whose most probable class is the right one."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all examples."""
        self._n, self._right = 0, torch.zeros((), dtype=torch.int64)

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Add logits (n, tokens, classes) and targets (n, tokens)."""
        predicted, true = _predictions_and_classes(outputs, targets)
        self._right = self._right.to(true.device) + (predicted == true).sum()
        self._n += len(true)

    def compute(self) -> float:
        """Return the value; NaN without a token that has a class."""
        return float(self._right) / self._n if self._n else math.nan


class Perplexity:
    """exp(sum of the cross-entropies in nats / number of tokens), over all tokens that have a next one."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all examples."""
        self._n, self._sum = 0, torch.zeros((), dtype=torch.float64)

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Add logits (n, tokens, classes) and targets (n, tokens)."""
        losses = F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=NO_CLASS, reduction="none")
        self._sum = self._sum.to(losses.device) + losses.double().sum()
        self._n += int((targets != NO_CLASS).sum())

    def compute(self) -> float:
        """Return the value; NaN without a token, infinity where it is too large."""
        return float((self._sum / self._n).exp()) if self._n else math.nan


class BitsPerDimension:
    """Negative log-likelihood in bits, divided by the numbers of an input: nats / (dimensions · ln 2).

    Args:
        dimensions: numbers of an input, as the pixels of an image; None where inputs have no fixed number of them.
    """

    def __init__(self, dimensions: int | None) -> None:
        self._dimensions = dimensions
        self.reset()

    def reset(self) -> None:
        """Forget all examples."""
        self._n, self._sum = 0, torch.zeros((), dtype=torch.float64)

    def update(self, outputs: Tensor, _targets: Tensor) -> None:
        """Add negative log-likelihoods in nats, (n, 1)."""
        self._sum = self._sum.to(outputs.device) + outputs.double().sum()
        self._n += len(outputs)

    def compute(self) -> float:
        """Return the value; NaN without examples or without a number of dimensions."""
        if not self._n or self._dimensions is None:
            return math.nan
        return float(self._sum) / (self._n * self._dimensions * math.log(2))


def _f1(hits: Tensor, predicted_and_true: Tensor, *, macro: bool) -> float:
    """F1 score from the numbers of hits, and of predictions plus true examples, of each label or class."""
    if not macro:
        hits, predicted_and_true = hits.sum(), predicted_and_true.sum()
    return float((2 * hits.double() / predicted_and_true.clamp(min=1)).mean())


def _predictions_and_classes(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The most probable class and the class of each token that has one."""
    has_class = targets != NO_CLASS
    return outputs.argmax(-1)[has_class], targets[has_class]
