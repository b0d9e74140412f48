"""Loss and correctness of each example."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional as F

Score = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From outputs (n, ...) and targets (n, ...): losses (n,) and correctness (n,), each example by itself."""


def cross_entropy(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax cross-entropy in nats from logits (n, classes) and classes (n,); correct where the largest logit is."""
    return F.cross_entropy(outputs, targets, reduction="none"), outputs.argmax(1) == targets


def loss_and_class(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The same loss, and in place of correctness the class that is predicted."""
    return F.cross_entropy(outputs, targets, reduction="none"), outputs.argmax(1)
