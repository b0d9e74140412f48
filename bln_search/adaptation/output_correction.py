"""Methods that change outputs alone: arms of one configuration share the forward pass."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.adaptation.method import Adaptation, check_logits
from bln_search.data.inputs import Inputs


class OutputCorrection(Adaptation):
    """A method of test-time adaptation that changes no weight and no statistic of the network."""

    @abstractmethod
    def correct(self, outputs: Tensor, features: Tensor) -> Tensor:
        """Return corrected logits (n, classes) of a mini-batch.

        Args:
            outputs: Logits of the network, (n, classes).
            features: Of the examples, (n, d), see `predict_with_features`.
        """

    def predict(self, inputs: Inputs) -> Tensor:
        """Return the corrected logits (n, classes) of a mini-batch."""
        return self.correct(*predict_with_features(self.network, inputs))


@torch.no_grad()
def predict_with_features(network: nn.Module, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Return the logits (n, classes) of a mini-batch, and features (n, d) of its examples.

    Features are the inputs of the dense layer that is called last, if it has one row for each example; otherwise
    softmax probabilities.
    """
    last: list[Tensor] = []

    def keep_input(_: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, Tensor]) -> None:
        last[:] = args[:1] or [kwargs["input"]]

    hooks = [
        module.register_forward_pre_hook(keep_input, with_kwargs=True)
        for module in network.modules()
        if isinstance(module, nn.Linear)
    ]
    try:
        outputs = check_logits(network(inputs.clone()))
    finally:
        for hook in hooks:
            hook.remove()
    has_rows = bool(last) and last[0].ndim == 2 and len(last[0]) == len(outputs)
    return outputs, last[0].detach() if has_rows else F.softmax(outputs, 1)
