"""Further training under a chosen inference configuration.

Source: Ziaee & Çano 2022, Algorithm 2, step 13, which asks for it and names neither learning rate nor number of epochs.
Statistics of the population are constants to the gradient, those of the mini-batch carry it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from operator import mul
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from bln_search.core.enums import PopulationRefresh
from bln_search.core.errors import DataError
from bln_search.norms.network.layers import get_norms_by_name, use_configured_sources_in_training


@dataclass(frozen=True)
class FineTuningEpoch:
    """One epoch of fine-tuning.

    Attributes:
        epoch: Counted from 1.
        training_loss: Mean loss over its mini-batches while the weights changed.
    """

    epoch: int
    training_loss: float


class FineTuningRun:
    """Trains a network whose layers are configured, epoch by epoch, under their configurations.

    Args:
        network: Network with configured layers; it is trained in place.
        mini_batches: Returns the training mini-batches of an epoch.
        loss: Returns the mean loss of a mini-batch, with its gradient, and its weight in the mean loss of the epoch. A
            mini-batch of weight 0, as one without a counted target, is skipped.
        optimizer: Of the network's parameters.
        epochs: Number of epochs.
        refresh: Whether `estimate` is called before every epoch, or not at all.
        estimate: Gives the layers new population values for the present weights.

    Attributes:
        diverged: Why training stopped early; None where it did not. The network then has the weights after the last
            complete epoch.
    """

    def __init__(
        self,
        network: nn.Module,
        mini_batches: Callable[[], Iterable[Any]],
        loss: Callable[[Any], tuple[Tensor, float]],
        optimizer: Optimizer,
        *,
        epochs: int,
        refresh: PopulationRefresh,
        estimate: Callable[[], None],
    ) -> None:
        self.network, self.mini_batches, self.loss, self.optimizer = network, mini_batches, loss, optimizer
        self.number_of_epochs, self.refresh, self.estimate = epochs, refresh, estimate
        self.layers = get_norms_by_name(network)
        self.diverged: str | None = None

    def train_epochs(self) -> Iterator[FineTuningEpoch]:
        """Train and yield a record after each epoch; stop where a loss is not finite."""
        for epoch in range(1, self.number_of_epochs + 1):
            if self.refresh is PopulationRefresh.EPOCH:
                self.estimate()
            state = deepcopy(self.network.state_dict())
            training_loss = self._train_one_epoch()
            if not math.isfinite(training_loss):
                self.network.load_state_dict(state)
                self.diverged = f"the training loss of epoch {epoch} of fine-tuning is not a finite number"
                return
            yield FineTuningEpoch(epoch, training_loss)

    def _train_one_epoch(self) -> float:
        """Train on every mini-batch once; return the mean loss, NaN or infinite from the first such loss on.

        Raises:
            DataError: No mini-batch has a weight.
        """
        self.network.train()
        losses, weights = [], []
        with use_configured_sources_in_training(self.layers.values()):
            for batch in self.mini_batches():
                loss, weight = self.loss(batch)
                if weight == 0:
                    continue
                losses.append(loss.item())
                weights.append(weight)
                if not math.isfinite(losses[-1]):
                    return losses[-1]
                self.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                self.optimizer.step()
        if not losses:
            raise DataError("no mini-batch of fine-tuning has a target that counts: give other targets or another loss")
        return math.fsum(map(mul, losses, weights)) / math.fsum(weights)
