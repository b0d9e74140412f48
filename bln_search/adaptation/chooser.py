"""A chooser as a method of adaptation: it picks the sources of the mini-batch statistics online."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from torch import Tensor, nn

from bln_search.adaptation.adaptive_network import AdaptiveNetwork
from bln_search.adaptation.method import Adaptation
from bln_search.core.errors import ShiftWarning
from bln_search.core.row_menu import DEFAULT_MENU
from bln_search.data.inputs import Inputs


class Chooser(Adaptation):
    """Each layer normalizes each mini-batch under the row of a menu with the least estimated risk.

    No weight changes. Without source data, the limits of a clear shift follow from the examples of the mini-batch
    alone; mini-batches of fewer than eight examples are normalized by the population. See `AdaptiveNetwork`.

    Args:
        network: See `Adaptation`.
        menu: The rows, T first.

    Raises:
        ModelError: A layer does not take its mini-batch statistics from the population.
        ValueError: The menu is not possible.
    """

    def __init__(self, network: nn.Module, *, menu: Sequence[str] = DEFAULT_MENU) -> None:
        super().__init__(AdaptiveNetwork(network, menu))

    def predict(self, inputs: Inputs) -> Tensor:
        """Return the logits (n, classes) of a mini-batch."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShiftWarning)  # a stream is shifted on purpose
            logits: Tensor = self.network(inputs)
        return logits

    def reset(self) -> None:
        """Return to the state before the first mini-batch."""
        assert isinstance(self.network, AdaptiveNetwork)
        self.network.reset()
