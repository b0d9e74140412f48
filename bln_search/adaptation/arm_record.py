"""Scores of the predictions of one arm, mini-batch by mini-batch, until the stream or the arm ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from bln_search.adaptation.method import check_logits
from bln_search.core.errors import ModelError
from bln_search.core.stream_outcomes import StreamOutcomes
from bln_search.tasks.calibration import brier_scores, negative_log_likelihoods

Predict = Callable[[], Tensor]
"""Returns logits (n, classes) of a mini-batch."""


class ArmRecord:
    """The outcomes of an arm on a stream of `examples` examples.

    An error of the arm, or an output that is not finite, ends it. Its later examples count as wrong; their loss is
    infinite.
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
        with self.ended_by_error():
            outputs = predict()
            if outputs.is_cuda:
                torch.cuda.synchronize(outputs.device)  # what is still computed belongs to the time
            self._seconds += seconds + time.perf_counter() - start
            self._score(check_logits(outputs).detach(), targets)
            self._batches += 1

    @contextmanager
    def ended_by_error(self) -> Iterator[None]:
        """End the arm where an error is raised in this context; a method may fail in any way, and other arms go on."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            name = "" if isinstance(error, ModelError) else f"{type(error).__name__}: "
            self.end = self.end or f"mini-batch {self._batches} (counted from 0): {name}{error}"

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

    def _score(self, outputs: Tensor, targets: Tensor) -> None:
        n = len(targets)
        if len(outputs) != n:
            raise ModelError(f"there are outputs of {len(outputs)} examples for a mini-batch of {n}")
        if not bool(outputs.isfinite().all()):
            raise ModelError("its outputs are not finite")
        place = slice(self._place, self._place + n)
        confidences, predicted = outputs.double().softmax(1).max(1)
        self._losses[place] = negative_log_likelihoods(outputs, targets).cpu().numpy()
        self._brier[place] = brier_scores(outputs, targets).cpu().numpy()
        self._confidences[place] = confidences.cpu().numpy()
        self._correct[place] = (predicted == targets).cpu().numpy()
        self._place += n
