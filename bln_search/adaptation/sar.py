"""SAR: sharpness-aware and reliable entropy minimization."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bln_search.adaptation.adapted_state import AdaptedState
from bln_search.adaptation.entropy import compute_entropy
from bln_search.adaptation.method import Adaptation, check_logits
from bln_search.adaptation.optimizers import make_optimizer
from bln_search.adaptation.scale_and_offset import unfreeze_scales_and_offsets
from bln_search.data.inputs import Inputs

_SHARE_OF_EARLIER_LOSSES = 0.9


class Sar(Adaptation):
    """Minimizes the entropy of reliable examples over γ and β, at a point of high loss near by.

    For each mini-batch, with the entropy H_i(Θ) of example i and Θ = (γ, β):

        1. reliable examples S = {i: H_i(Θ) < E_0}, E_0 = margin·ln C for C classes
        2. g = ∇ mean_S H_i(Θ),    ε = ρ·g/‖g‖₂
        3. S' = {i ∈ S: H_i(Θ + ε) < E_0}, a step of SGD at Θ with ∇ mean_S' H_i(Θ + ε)
        4. e ← 0.9·e + 0.1·mean_S' H_i(Θ + ε), at first the mean itself; where e < e_m, everything is reset

    The outputs are those of the first forward pass. Without an example in S or in S' there is no step. The paper leaves
    γ and β of the last stage of a network as they are: `frozen_layers` names such parts, by default none.

    Source: Niu et al. 2023, Towards stable test-time adaptation in dynamic wild world, section 4. The defaults are its
    settings for networks with batch or group normalization.

    Args:
        network: See `Adaptation`.
        learning_rate: Of SGD with momentum 0.9.
        margin: E_0 as a fraction of ln C.
        rho: ρ, the radius in which the loss is flat.
        recovery_entropy: e_m, below which the moving average of the entropy counts as a collapse.
        frozen_layers: Names of modules whose normalization layers are not adapted.

    Raises:
        ModelError: The network has no trained γ or β in a normalization layer, or no layer of a name.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        learning_rate: float = 2.5e-4,
        margin: float = 0.4,
        rho: float = 0.05,
        recovery_entropy: float = 0.2,
        frozen_layers: Sequence[str] = (),
    ) -> None:
        super().__init__(network)
        self.learning_rate, self.margin, self.rho = learning_rate, margin, rho
        self.recovery_entropy = recovery_entropy
        self.parameters = unfreeze_scales_and_offsets(network, "sar", frozen_layers)
        self._initial = AdaptedState(network)
        self.reset()

    def reset(self) -> None:
        """Return to γ, β and the statistics before the first mini-batch, with a new optimizer and average."""
        self._initial.restore()
        self.optimizer = make_optimizer("sgd", self.parameters, self.learning_rate)
        self.average_entropy: float | None = None

    @torch.enable_grad()
    def predict(self, inputs: Inputs) -> Tensor:
        """Return the logits (n, classes) of a mini-batch before the step on it."""
        logits = check_logits(self.network(inputs.clone()))
        limit = self.margin * math.log(logits.shape[1])
        entropy = compute_entropy(logits)
        reliable = entropy < limit
        if reliable.any():
            self._backpropagate(entropy[reliable].mean())
            self._take_sharpness_aware_step(inputs, reliable, limit)
        if self.average_entropy is not None and self.average_entropy < self.recovery_entropy:
            self.reset()
        return logits.detach()

    def _take_sharpness_aware_step(self, inputs: Inputs, reliable: Tensor, limit: float) -> None:
        """Take a step with the gradient at Θ + ε, where the present gradient is that at Θ."""
        values = [parameter.detach().clone() for parameter in self.parameters]
        self._move_against_descent()
        entropy = compute_entropy(check_logits(self.network(inputs.clone())))[reliable]
        entropy = entropy[entropy < limit]
        if len(entropy):
            self._backpropagate(entropy.mean())
        with torch.no_grad():
            for parameter, value in zip(self.parameters, values, strict=True):
                parameter.copy_(value)
        if len(entropy):
            self.optimizer.step()
            self._update_average(float(entropy.detach().mean()))

    @torch.no_grad()
    def _move_against_descent(self) -> None:
        """Add ε to the parameters."""
        moved = [(parameter, parameter.grad) for parameter in self.parameters if parameter.grad is not None]
        norm = torch.stack([gradient.norm() for _, gradient in moved]).norm()
        for parameter, gradient in moved:
            parameter.add_(gradient * (self.rho / (norm + 1e-12)))

    def _backpropagate(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]

    def _update_average(self, entropy: float) -> None:
        if self.average_entropy is not None:
            share = _SHARE_OF_EARLIER_LOSSES
            entropy = share * self.average_entropy + (1 - share) * entropy
        self.average_entropy = entropy
