"""How far the present epoch of a training run is, and the mean of its losses whose weights fall with age."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bln_search.norms import Normalization
from bln_search.norms.moment_collection import MomentAccumulator

DECAY_PER_EPOCH = 0.1
"""Factor by which the weight of a mini-batch falls in an epoch."""


@dataclass
class EpochProgress:
    """The finished steps of an epoch.

    Attributes:
        total_loss: sum of the losses of the mini-batches, a scalar on the device.
        num_correct: number of correct predictions, a scalar on the device.
        accumulators: of the population estimate of the epoch, by layer; empty without that estimate.
        step: number of finished steps.
        first_step: number of steps that were finished when the run was restored; 0 for an epoch without interruption.
        order_state: state of the generator from which the order of the examples was drawn; None before that.
        earlier_seconds: duration before an interruption.
    """

    total_loss: Tensor
    num_correct: Tensor
    accumulators: dict[Normalization, MomentAccumulator]
    step: int = 0
    first_step: int = 0
    order_state: Tensor | None = None
    earlier_seconds: float = 0.0
    _started_at: float = field(default_factory=time.perf_counter)

    def start_clock(self) -> None:
        """The first step begins now, or the first one after an interruption."""
        self._started_at = time.perf_counter()

    def record_epoch_trained_elsewhere(
        self, steps: int, total_loss: Tensor, num_correct: Tensor, seconds: float
    ) -> None:
        """All steps were made elsewhere: see `StackedTraining`.

        Args:
            steps: Number of steps of the epoch.
            total_loss: Sum of the losses of the mini-batches, a scalar.
            num_correct: Number of correct predictions, a scalar.
            seconds: Duration.
        """
        self.total_loss.copy_(total_loss)
        self.num_correct.copy_(num_correct)
        self.step = self.first_step = steps
        self.earlier_seconds = seconds

    @property
    def seconds(self) -> float:
        """Seconds of the epoch so far, without interruptions."""
        return self.earlier_seconds + time.perf_counter() - self._started_at

    def draw_order(self, n: int, generator: torch.Generator) -> Tensor:
        """Return a random order of n examples; that of the interrupted epoch again, without changing `generator`."""
        if self.first_step == 0:
            self.order_state = generator.get_state()
            return torch.randperm(n, generator=generator)
        assert self.order_state is not None
        earlier = torch.Generator()
        earlier.set_state(self.order_state)
        return torch.randperm(n, generator=earlier)


class RecencyWeightedMean:
    """Mean of values with the weights q^age, divided by their sum.

    Args:
        steps_per_epoch: Steps in which a weight falls by `DECAY_PER_EPOCH`.
    """

    def __init__(self, steps_per_epoch: int) -> None:
        self._decay: float = DECAY_PER_EPOCH ** (1 / steps_per_epoch)
        self._weighted_sum: Tensor | None = None
        self._steps = 0

    def add(self, value: Tensor) -> None:
        """Add the value of a step, a scalar; it stays on its device."""
        value = value.detach().to(torch.float64, copy=True)
        self._weighted_sum = value if self._weighted_sum is None else self._weighted_sum.mul_(self._decay).add_(value)
        self._steps += 1

    @property
    def state(self) -> tuple[int, Tensor | None]:
        """The number of steps and the weighted sum, None before the first step. It can be set to an earlier state."""
        return self._steps, self._weighted_sum

    @state.setter
    def state(self, value: tuple[int, Tensor | None]) -> None:
        self._steps, self._weighted_sum = value

    @property
    def mean(self) -> float:
        """The mean. Raises ValueError before the first step."""
        if self._weighted_sum is None:
            raise ValueError("there is no mean of no steps")
        return float(self._weighted_sum) * (1 - self._decay) / (1 - self._decay**self._steps)
