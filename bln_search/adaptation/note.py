"""NOTE: continual test-time adaptation on streams whose examples are correlated."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bln_search.adaptation.adapted_state import AdaptedState
from bln_search.adaptation.entropy import compute_entropy
from bln_search.adaptation.instance_aware_norm import replace_by_instance_aware_norms
from bln_search.adaptation.method import Adaptation, check_logits
from bln_search.adaptation.optimizers import make_optimizer
from bln_search.adaptation.prediction_balanced_memory import PredictionBalancedMemory
from bln_search.adaptation.scale_and_offset import unfreeze_scales_and_offsets
from bln_search.adaptation.sliceable_inputs import check_sliceable
from bln_search.data.inputs import Inputs, concatenate_inputs


class Note(Adaptation):
    """Normalizes by instance-aware batch normalization, and adapts to a memory of balanced predictions.

    Each example is predicted by population statistics, which those of the example correct
    (`InstanceAwareBatchNorm`). It enters the memory with its prediction (`PredictionBalancedMemory`). After each
    `update_interval` examples of the stream, whatever its mini-batches, one step of Adam on γ and β decreases the mean
    entropy of the memory, with the statistics of the memory. The population moves towards these: μ̄ ← (1 − m)·μ̄ + m·μ.

    Differences from the paper: there the network is trained with IABN, here it replaces BN at inference. The loss is
    the mean over examples of the entropy; the authors' code divides it by the number of classes too.

    Source: Gong et al. 2022, NOTE: Robust continual test-time adaptation against temporal correlation, section 3.
    The defaults are its settings for CIFAR-10-C.

    Args:
        network: See `Adaptation`; with batch normalization, configuration T.
        learning_rate: Of Adam.
        shrinkage: k, in standard errors.
        momentum: m, the weight of the memory in the population.
        memory_size: Number of examples in the memory.
        update_interval: Number of examples of the stream between two steps.
        seed: Of the random choices of the memory.

    Raises:
        ModelError: A normalization layer is not BN with configuration T, or none has a trained γ or β.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        learning_rate: float = 1e-4,
        shrinkage: float = 4.0,
        momentum: float = 0.01,
        memory_size: int = 64,
        update_interval: int = 64,
        seed: int = 0,
    ) -> None:
        super().__init__(network)
        self.learning_rate, self.memory_size = learning_rate, memory_size
        self.update_interval, self.seed = update_interval, seed
        self.parameters = unfreeze_scales_and_offsets(network, "note")
        self.layers = replace_by_instance_aware_norms(network, shrinkage, momentum)
        self._initial = AdaptedState(network)
        self.reset()

    def reset(self) -> None:
        """Return to γ, β and the population before the first mini-batch, with an empty memory and a new optimizer."""
        self._initial.restore()
        self.optimizer = make_optimizer("adam", self.parameters, self.learning_rate)
        generator = torch.Generator().manual_seed(self.seed)
        self.memory = PredictionBalancedMemory(self.memory_size, generator)
        self.examples_seen = 0

    def predict(self, inputs: Inputs) -> Tensor:
        """Return the logits (n, classes) of a mini-batch, each before the next step."""
        check_sliceable(inputs, "note")
        parts, start = [], 0
        while start < len(inputs):
            stop = start + self.update_interval - self.examples_seen % self.update_interval
            parts.append(self._predict_and_remember(inputs[start:stop]))
            start = stop
            if self.examples_seen % self.update_interval == 0:
                self._take_step()
        return torch.cat(parts)

    @torch.no_grad()
    def _predict_and_remember(self, inputs: Inputs) -> Tensor:
        logits = check_logits(self.network(inputs.clone()))
        for position, label in enumerate(logits.argmax(1).tolist()):
            self.memory.add(inputs[position : position + 1].clone(), label)
        self.examples_seen += len(inputs)
        return logits

    @torch.enable_grad()
    def _take_step(self) -> None:
        examples = self.memory.list_examples()
        for layer in self.layers:
            layer.uses_mini_batch = len(examples) > 1
        loss = compute_entropy(check_logits(self.network(concatenate_inputs(examples)))).mean()
        for layer in self.layers:
            layer.uses_mini_batch = False
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
