"""No adaptation: the forward pass of the configuration."""

from __future__ import annotations

from torch import Tensor

from bln_search.adaptation.output_correction import OutputCorrection


class NoAdaptation(OutputCorrection):
    """The network as it is, under the configuration of the arm."""

    def correct(self, outputs: Tensor, features: Tensor) -> Tensor:  # noqa: ARG002 - for methods that read them
        """Return the logits as they are."""
        return outputs

    def reset(self) -> None:
        """Nothing changes from mini-batch to mini-batch but what the network itself keeps."""
