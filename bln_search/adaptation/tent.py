"""TENT: entropy minimization at test time."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bln_search.adaptation.adapted_state import AdaptedState
from bln_search.adaptation.entropy import compute_entropy
from bln_search.adaptation.method import Adaptation, check_logits
from bln_search.adaptation.optimizers import OptimizerName, make_optimizer
from bln_search.adaptation.scale_and_offset import unfreeze_scales_and_offsets
from bln_search.data.inputs import Inputs


class Tent(Adaptation):
    """Minimizes the entropy of its predictions over scale γ and offset β of the normalization layers.

    For each mini-batch x_1 … x_n, with p_i = softmax f(x_i; γ, β), one step on

        L = 1/n Σ_i H_i,        H_i = −Σ_c p_ic·ln p_ic.

    The outputs are those of the forward pass before the step, as in the authors' code. In the paper the layers take
    their statistics from the mini-batch (configuration F); here the arm says it.

    Source: Wang et al. 2021, Tent: Fully test-time adaptation by entropy minimization, section 3. The defaults are its
    settings for CIFAR-10-C.

    Args:
        network: See `Adaptation`.
        optimizer: `adam`, or `sgd` with momentum 0.9.
        learning_rate: Of the optimizer.
        steps: Steps on each mini-batch; the outputs are those of the last forward pass.
        episodic: Reset before each mini-batch.

    Raises:
        ModelError: The network has no trained γ or β in a normalization layer.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        optimizer: OptimizerName = "adam",
        learning_rate: float = 1e-3,
        steps: int = 1,
        episodic: bool = False,
    ) -> None:
        super().__init__(network)
        self.optimizer_name, self.learning_rate = optimizer, learning_rate
        self.steps, self.episodic = steps, episodic
        self.parameters = unfreeze_scales_and_offsets(network, "tent")
        self._initial = AdaptedState(network)
        self.optimizer = make_optimizer(optimizer, self.parameters, learning_rate)

    def predict(self, inputs: Inputs) -> Tensor:
        """Return the logits (n, classes) of a mini-batch before the last step on it."""
        if self.episodic:
            self.reset()
        for _ in range(self.steps):
            logits = self._take_step(inputs)
        return logits

    def reset(self) -> None:
        """Return to γ, β and the statistics before the first mini-batch, with a new optimizer."""
        self._initial.restore()
        self.optimizer = make_optimizer(self.optimizer_name, self.parameters, self.learning_rate)

    @torch.enable_grad()
    def _take_step(self, inputs: Inputs) -> Tensor:
        logits = check_logits(self.network(inputs.clone()))
        self.optimizer.zero_grad()
        compute_entropy(logits).mean().backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return logits.detach()
