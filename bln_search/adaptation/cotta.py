"""CoTTA: continual test-time adaptation with an averaged teacher and stochastic restoration."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bln_search.adaptation.adapted_state import AdaptedState
from bln_search.adaptation.entropy import compute_cross_entropy
from bln_search.adaptation.image_augmentation import are_images, augment_images
from bln_search.adaptation.method import Adaptation, check_logits
from bln_search.adaptation.optimizers import make_optimizer
from bln_search.core.errors import ModelError
from bln_search.data.inputs import Inputs
from bln_search.norms.network.copying import copy_network


class Cotta(Adaptation):
    """A teacher predicts, a student learns all weights from it, and some of them return to the source each time.

    For each mini-batch x, with the logits f_T of the teacher, f_S of the student and f_0 of the network at the start:

        1. y = f_T(x), and where mean_i max_c softmax f_0(x)_ic < `threshold`, y = mean_k f_T(a_k(x)) over augmented
           images a_k(x) (`augment_images`)
        2. L = −mean_i Σ_c softmax(y)_ic·ln softmax(f_S(x))_ic; a step of Adam on all weights θ_S
        3. θ_T ← m·θ_T + (1 − m)·θ_S
        4. each entry of θ_S returns to its value at the start with the probability `restoration`

    The outputs are y. Inputs other than images (n, C, H, W) are not augmented.

    Source: Wang et al. 2022, Continual test-time domain adaptation, section 3. The defaults are its settings for
    CIFAR-10-C.

    Args:
        network: See `Adaptation`; the teacher.
        learning_rate: Of Adam.
        teacher_momentum: m.
        restoration: Probability with which an entry returns.
        threshold: Confidence of the network at the start below which images are augmented.
        augmentations: Number of augmented mini-batches; 0 for none.
        seed: Of augmentation and restoration.

    Raises:
        ModelError: No parameter of the network is trained.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        learning_rate: float = 1e-3,
        teacher_momentum: float = 0.999,
        restoration: float = 0.01,
        threshold: float = 0.92,
        augmentations: int = 32,
        seed: int = 0,
    ) -> None:
        super().__init__(network)
        self.learning_rate, self.teacher_momentum = learning_rate, teacher_momentum
        self.restoration, self.threshold = restoration, threshold
        self.augmentations, self.seed = augmentations, seed
        self.student, self.source = copy_network(network), copy_network(network)
        networks = (network, self.student, self.source)
        self._initial = [AdaptedState(each) for each in networks]
        self.teacher_parameters, self.parameters, self.source_parameters = (
            [parameter for parameter in each.parameters() if parameter.requires_grad] for each in networks
        )
        if not self.parameters:
            raise ModelError("cotta adapts all trained weights, and no parameter of the network is (requires_grad)")
        network.requires_grad_(requires_grad=False)
        self.reset()

    def reset(self) -> None:
        """Return to the weights and statistics before the first mini-batch."""
        for state in self._initial:
            state.restore()
        self.optimizer = make_optimizer("adam", self.parameters, self.learning_rate)
        self._generator = torch.Generator().manual_seed(self.seed)

    @torch.no_grad()
    def predict(self, inputs: Inputs) -> Tensor:
        """Return the teacher's logits (n, classes) of a mini-batch, before the step on it."""
        taught = self._predict_by_teacher(inputs)
        with torch.enable_grad():
            loss = compute_cross_entropy(taught, check_logits(self.student(inputs.clone()))).mean()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        for teacher, student in zip(self.teacher_parameters, self.parameters, strict=True):
            teacher.lerp_(student, 1 - self.teacher_momentum)
        self._restore_entries()
        return taught

    def _predict_by_teacher(self, inputs: Inputs) -> Tensor:
        """Return y."""
        confidence = check_logits(self.source(inputs.clone())).softmax(1).amax(1).mean()
        if self.augmentations and confidence < self.threshold and are_images(inputs):
            augmented = (augment_images(inputs, self._generator) for _ in range(self.augmentations))
            return torch.stack([check_logits(self.network(images)) for images in augmented]).mean(0)
        return check_logits(self.network(inputs.clone()))

    def _restore_entries(self) -> None:
        """Set random entries of the student's weights to their values at the start."""
        for student, source in zip(self.parameters, self.source_parameters, strict=True):
            draws = torch.rand(student.shape, generator=self._generator, dtype=torch.float64)
            student.copy_(torch.where((draws < self.restoration).to(student.device), source, student))
