"""Scores of the predictions of one arm, mini-batch by mini-batch, until the stream or the arm ends."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.core.stream_outcomes import StreamOutcomes

Predict = Callable[[], Tensor]
"""Returns logits (n, classes) of a mini-batch."""


class ArmRecord:
    """The outcomes of an arm on a stream of `examples` examples.

    An error of the arm, or an output that is not finite, ends it. Its later examples count as wrong,
    with infinite loss.
    """

    def __init__(self, examples: int) -> None:
        self.end = ""
        self._place, self._batches, self._seconds = 0, 0, 0.0
        self._losses = np.full(examples, np.inf, np.float32)
        self._brier, self._confidences = self._losses.copy(), np.zeros(examples, np.float32)
        self._correct = np.zeros(examples, np.bool_)

    def add(self, predict: Predict, targets: Tensor, seconds: float = 0.0) -> None:
        """Predict a mini-batch and score the outputs; nothing after the arm ended.

        Args:
            predict: Called once.
            targets: Classes (n,).
            seconds: Time of what was computed before, as a shared forward pass.
        """
        if self.end:
            return
        start = time.perf_counter()
        try:
            outputs = predict()
        except Exception as error:  # noqa: BLE001 - a method may fail in any way; other arms go on
            self._end(f"{type(error).__name__}: {error}")
            return
        self._seconds += seconds + time.perf_counter() - start
        if not bool(outputs.isfinite().all()):
            self._end("its outputs are not finite")
            return
        self._score(outputs.detach(), targets)
        self._batches += 1

    def make_outcomes(self) -> StreamOutcomes:
        """The outcomes."""
        return StreamOutcomes(
            self._losses,
            self._correct,
            self._brier,
            self._confidences,
            self.end,
            self._batches,
            self._seconds,
        )

    def _end(self, reason: str) -> None:
        self.end = f"mini-batch {self._batches} (counted from 0): {reason}"

    def _score(self, outputs: Tensor, targets: Tensor) -> None:
        n = len(targets)
        place = slice(self._place, self._place + n)
        probabilities = F.softmax(outputs.double(), 1)
        confidences, predicted = probabilities.max(1)
        one_hot = F.one_hot(targets, outputs.shape[1])
        self._losses[place] = F.cross_entropy(outputs.double(), targets, reduction="none").cpu().numpy()
        self._brier[place] = torch.sum((probabilities - one_hot) ** 2, 1).cpu().numpy()
        self._confidences[place] = confidences.cpu().numpy()
        self._correct[place] = (predicted == targets).cpu().numpy()
        self._place += n
