"""A table of the losses of every per-layer configuration, to compare searches without a network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bln_search.core.per_layer import ConfigurationSpace
from bln_search.evaluation.tree.trie import Digits
from bln_search.search.layers.loss_source import Floats


class TableLossSource:
    """Looks losses up in a table of every configuration of a space.

    Args:
        space: The configurations.
        losses: Sums of losses, (mini-batches, configurations).
        examples: Examples of each mini-batch, (mini-batches,).
    """

    def __init__(self, space: ConfigurationSpace, losses: Floats, examples: NDArray[np.int64]) -> None:
        self.space, self.examples = space, examples
        self._losses = np.where(np.isnan(losses), np.inf, losses)

    def sum_losses(self, digits: Digits, batches: Sequence[int]) -> Floats:
        """Sums of losses, (configurations, mini-batches)."""
        indices = [self.space.index_of_choice_digits([int(digit) for digit in row]) for row in digits]
        return self._losses[np.ix_(list(batches), indices)].T
