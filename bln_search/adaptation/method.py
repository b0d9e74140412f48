"""What a method of test-time adaptation is: it adapts a network to the mini-batches of a stream, and predicts them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from bln_search.core.errors import ModelError
from bln_search.data.inputs import Inputs


class Adaptation(ABC):
    """A method of test-time adaptation on a network of its own, for a classification.

    A stream calls `predict` once for each mini-batch, in order, without targets. A method never sees a target.

    Args:
        network: A copy for this method alone, in evaluation mode: its normalization layers have the configuration and
            the population of the arm. The method may change it.
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network

    @abstractmethod
    def predict(self, inputs: Inputs) -> Tensor:
        """Return the logits (n, classes) of a mini-batch, without gradient, and adapt to it.

        Args:
            inputs: The mini-batch (n, ...).

        Raises:
            ModelError: The network cannot be adapted by this method; the arm ends, others go on.
        """

    @abstractmethod
    def reset(self) -> None:
        """Return to the state before the first mini-batch."""


def check_logits(outputs: object) -> Tensor:
    """Return outputs. Raises ModelError unless they are logits (n, classes) of at least two classes."""
    if isinstance(outputs, Tensor) and outputs.ndim == 2 and outputs.shape[1] > 1 and outputs.is_floating_point():
        return outputs
    form = f"a tensor of shape {tuple(outputs.shape)}" if isinstance(outputs, Tensor) else type(outputs).__name__
    raise ModelError(
        f"test-time adaptation needs logits of shape (examples, classes) with at least two classes, "
        f"the network returns {form}"
    )
