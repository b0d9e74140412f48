"""No adaptation: the forward pass of the configuration."""

from __future__ import annotations

from torch import Tensor

from bln_search.adaptation.method import Adaptation, predict_without_gradient
from bln_search.data.inputs import Inputs


class NoAdaptation(Adaptation):
    """The network as it is, under the configuration of the arm."""

    def predict(self, inputs: Inputs) -> Tensor:
        """Return the logits (n, classes) of a mini-batch."""
        return predict_without_gradient(self.network, inputs)

    def reset(self) -> None:
        """Nothing changes from mini-batch to mini-batch but what the network itself keeps."""
