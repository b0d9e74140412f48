"""RoTTA: robust test-time adaptation on correlated streams of changing distribution."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bln_search.adaptation.adapted_state import AdaptedState
from bln_search.adaptation.category_balanced_memory import CategoryBalancedMemory
from bln_search.adaptation.entropy import compute_cross_entropy, compute_entropy
from bln_search.adaptation.image_augmentation import are_images, augment_images
from bln_search.adaptation.method import Adaptation, check_logits
from bln_search.adaptation.optimizers import make_optimizer
from bln_search.adaptation.robust_statistics import RobustStatistics
from bln_search.adaptation.scale_and_offset import unfreeze_scales_and_offsets
from bln_search.adaptation.sliceable_inputs import check_sliceable
from bln_search.data.inputs import Inputs, concatenate_inputs
from bln_search.norms.network.copying import copy_network


class Rotta(Adaptation):
    """A teacher predicts; its student adapts to a balanced memory of recent examples, and the teacher follows it.

    The teacher predicts a mini-batch with population statistics. Each example enters the memory with this prediction
    and its entropy (`CategoryBalancedMemory`). After each `update_interval` examples of the stream, with the examples
    x_i of the memory, their ages A_i as fractions of its size N, the teacher's probabilities p and the student's q:

        1. L = mean_i E(A_i)·(−Σ_c p_c(x_i)·ln q_c(x'_i)),   E(A) = exp(−A)/(1 + exp(−A)),
           with x'_i an augmented x_i; a step of Adam on γ and β of the student
        2. θ_T ← (1 − ν)·θ_T + ν·θ_S for γ and β of the teacher

    In these passes the statistics of both networks move, s ← (1 − α)·s + α·b, and normalize (`RobustStatistics`). So do
    the mini-batch statistics of BLN; layers without them have no statistics that move.

    Images (n, C, H, W) are augmented as `augment_images` says, other inputs are not: x'_i = x_i.

    Source: Yuan et al. 2023, Robust test-time adaptation in dynamic scenarios, section 3. The defaults are its settings
    for CIFAR-10-C.

    Args:
        network: See `Adaptation`, with configuration T; the teacher.
        learning_rate: Of Adam.
        momentum: α.
        teacher_momentum: ν.
        memory_size: N.
        update_interval: Number of examples of the stream between two steps.
        age_weight: λ_t, of the memory.
        uncertainty_weight: λ_u, of the memory.
        augment: Augment images.
        seed: Of the augmentation.

    Raises:
        ModelError: Mini-batch statistics do not come from the population, or no layer has a trained γ or β.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        learning_rate: float = 1e-3,
        momentum: float = 0.05,
        teacher_momentum: float = 1e-3,
        memory_size: int = 64,
        update_interval: int = 64,
        age_weight: float = 1.0,
        uncertainty_weight: float = 1.0,
        augment: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(network)
        self.learning_rate, self.teacher_momentum = learning_rate, teacher_momentum
        self.memory_size, self.update_interval = memory_size, update_interval
        self.age_weight, self.uncertainty_weight = age_weight, uncertainty_weight
        self.augment, self.seed = augment, seed
        self.student = copy_network(network)
        self.teacher_parameters = unfreeze_scales_and_offsets(network, "rotta")
        self.parameters = unfreeze_scales_and_offsets(self.student, "rotta")
        self._initial = AdaptedState(network), AdaptedState(self.student)
        network.requires_grad_(requires_grad=False)
        self._statistics = [RobustStatistics(each, momentum, "rotta") for each in (network, self.student)]
        self.reset()

    def reset(self) -> None:
        """Return to the weights and statistics before the first mini-batch, with an empty memory."""
        for state in self._initial:
            state.restore()
        self.optimizer = make_optimizer("adam", self.parameters, self.learning_rate)
        self.memory: CategoryBalancedMemory | None = None
        self.examples_seen = 0
        self._generator = torch.Generator().manual_seed(self.seed)

    @torch.no_grad()
    def predict(self, inputs: Inputs) -> Tensor:
        """Return the teacher's logits (n, classes) of a mini-batch, before the steps that its examples cause."""
        check_sliceable(inputs, "rotta")
        logits = check_logits(self.network(inputs.clone()))
        if self.memory is None:
            self.memory = CategoryBalancedMemory(
                self.memory_size, logits.shape[1], self.age_weight, self.uncertainty_weight
            )
        labels, entropies = logits.argmax(1).tolist(), compute_entropy(logits).tolist()
        for position, (label, entropy) in enumerate(zip(labels, entropies, strict=True)):
            self.memory.add(inputs[position : position + 1].clone(), label, entropy)
            self.examples_seen += 1
            if self.examples_seen % self.update_interval == 0:
                self._take_step(self.memory)
        return logits

    def _take_step(self, memory: CategoryBalancedMemory) -> None:
        """Adapt the student to the memory, and let the teacher follow."""
        examples = memory.list_examples()
        inputs = concatenate_inputs([example.inputs for example in examples])
        with self._statistics[0].moving(), self._statistics[1].moving():
            taught = check_logits(self.network(inputs.clone()))
            with torch.enable_grad():
                learned = check_logits(self.student(self._augment(inputs)))
                ages = torch.tensor([example.age for example in examples]).to(learned) / self.memory_size
                loss = (compute_cross_entropy(taught, learned) * torch.sigmoid(-ages)).mean()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        for teacher, student in zip(self.teacher_parameters, self.parameters, strict=True):
            teacher.lerp_(student, self.teacher_momentum)

    def _augment(self, inputs: Inputs) -> Inputs:
        if self.augment and are_images(inputs):
            return augment_images(inputs, self._generator)
        return inputs.clone()
