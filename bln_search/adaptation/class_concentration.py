"""How concentrated the predicted classes of mini-batches are, to recognize streams whose labels are correlated.

With the mean probabilities p̄ of a mini-batch of m examples, and the shares π of the K classes in the source:

    ρ = (m·Σ(p̄ − π)²/(1 − Σπ²) − 1)/(m − 1),

cut to the range from 0 to 1: 0 on average for m independent examples with certain predictions, 1 for one class where
shares are equal.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

_MEMORY = 0.3
_UNDER_SHIFT = 0.03


def move_concentration(previous: Tensor, logits: Tensor, shares: Tensor | None, *, is_first: Tensor) -> Tensor:
    """Return the moving average of ρ, in which a mini-batch has the weight 0.3. A single example does not count.

    Args:
        previous: The average before (), in its dtype.
        logits: (m, K).
        shares: π (K,); None for equal shares.
        is_first: Whether there is no average before ().
    """
    size = _count(logits)
    expected = torch.full_like(logits[0], 1 / logits.shape[1]) if shares is None else shares.to(logits.dtype)
    distance = (F.softmax(logits, 1).mean(0) - expected).square().sum() / (1 - expected.square().sum())
    present = ((size * distance - 1) / (size - 1).clamp_min(1)).clamp(0, 1).to(previous.dtype)
    moved = previous + torch.where(is_first, 1.0, _MEMORY) * (present - previous)
    return torch.where(size > 1, moved, previous)


def are_classes_balanced(concentration: Tensor, logits: Tensor) -> Tensor:
    """Return whether ρ is at most 0.03 + 2·√(2/(K − 1))/m.

    The second term is twice the standard deviation of ρ for m independent examples. The first is what a network whose
    inputs have shifted prefers some classes anyway.
    """
    return concentration <= _UNDER_SHIFT + 2 * math.sqrt(2 / (logits.shape[1] - 1)) / _count(logits)


def _count(logits: Tensor) -> Tensor:
    """The number of examples as a tensor, which a program has as a variable."""
    return torch.full((), logits.shape[0], dtype=logits.dtype, device=logits.device)
