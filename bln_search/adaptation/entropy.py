"""Entropy of predictions, the loss of several methods of test-time adaptation."""

from __future__ import annotations

from torch import Tensor


def compute_entropy(logits: Tensor) -> Tensor:
    """Return H_i = −Σ_c p_ic·ln p_ic for each example (n,), with p = softmax of the logits (n, classes)."""
    return compute_cross_entropy(logits, logits)


def compute_cross_entropy(target_logits: Tensor, logits: Tensor) -> Tensor:
    """Return −Σ_c p_ic·ln q_ic for each example (n,), with p and q the softmax of logits (n, classes)."""
    return -(target_logits.softmax(1) * logits.log_softmax(1)).sum(1)
