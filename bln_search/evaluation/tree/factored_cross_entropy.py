"""Softmax cross-entropy of all rows after the last normalization layer, from the terms of their logits.

Where a linear layer ends the network, the logits of a row are A_v + C_u, with few batch variants v and feature variants
u. With the target's logit subtracted from both terms, the loss of an example is

    log(1 + Σ_{k ≠ target} exp(A_vk)·exp(C_uk))

so exponentials are computed of the terms, not of their sums. The answer is correct where every product is below one.
Where the largest is near one, two classes are nearly equal, and the sums A_v + C_u decide.
"""

from __future__ import annotations

from math import e, log2

import torch
from torch import Tensor

from bln_search.norms.row_batching.dense_sum import ClassMajorLogitsAsSums

_LOG2_E = log2(e)
"""exp(x) is computed as 2^(x·log2 e), for which torch needs less time where it uses AVX2 or AVX-512."""

_NEAR_TIE = 16
"""Distance of the largest product from one, in units of the rounding error, up to which the sums decide."""


def try_compute_factored_cross_entropy(logits: ClassMajorLogitsAsSums, targets: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return losses and correctness (rows, G, N) for classes `targets` (G, N); None where this form is not applicable.

    It is not applicable in less than single precision, where exponentials overflow, and where a target is not among the
    classes.
    """
    if logits.feature.dtype not in (torch.float32, torch.float64):
        return None
    if int(targets.max()) >= logits.feature.shape[1]:
        return None  # the general cross-entropy raises the error
    num_batch, feature = len(logits.batch), logits.feature
    terms = feature.new_empty((num_batch + len(feature), *feature.shape[1:]))
    positions = _positions_of_targets(targets)
    for term, relative in zip((*logits.batch, *feature), terms, strict=True):
        torch.sub(term, term.reshape(-1).index_select(0, positions).view(targets.shape), out=relative)
        relative.mul_(_LOG2_E).exp2_()
    terms[:num_batch].view(num_batch, -1).index_fill_(1, positions, 0.0)
    sums, largest = _sum_and_max_of_products(terms[:num_batch], terms[num_batch:])
    if not torch.isfinite(sums.sum()):
        return None
    correct = largest < 1
    _decide_near_ties(correct, largest, logits, targets)
    rows = [batch * len(feature) + feature_variant for batch, feature_variant in logits.rows]
    if rows != list(range(len(sums))):
        sums, correct = sums[rows], correct[rows]
    return sums.log1p_(), correct


def _positions_of_targets(targets: Tensor) -> Tensor:
    """Return the positions of the targets (G, N) in a flattened tensor (K, G, N)."""
    flat = targets.flatten()
    return torch.arange(len(flat), device=flat.device).add_(flat, alpha=len(flat))


def _decide_near_ties(correct: Tensor, largest: Tensor, logits: ClassMajorLogitsAsSums, targets: Tensor) -> None:
    """Write whether the answer is correct where the largest product is near one.

    The sums of logits decide; of equal ones the first is the answer.

    Args:
        correct: of each pair of variants, (pairs, G, N), where to write.
        largest: product of each pair of variants, (pairs, G, N); overwritten.
        logits: their terms.
        targets: classes, (G, N).
    """
    distance = largest.sub_(1).abs_()
    tolerance = _NEAR_TIE * torch.finfo(largest.dtype).eps
    for pair in (distance.amin((1, 2)) <= tolerance).nonzero().flatten().tolist():
        batch, feature = logits.batch[pair // len(logits.feature)], logits.feature[pair % len(logits.feature)]
        groups, examples = (distance[pair] <= tolerance).nonzero(as_tuple=True)
        sums = batch[:, groups, examples] + feature[:, groups, examples]
        correct[pair, groups, examples] = sums.argmax(0) == targets[groups, examples]


def _sum_and_max_of_products(batch: Tensor, feature: Tensor) -> tuple[Tensor, Tensor]:
    """Return sum and maximum over classes of the products of each batch variant with each feature variant."""
    sums = batch[:, None, 0] * feature[None, :, 0]
    largest = sums.clone()
    product = torch.empty_like(sums)
    for k in range(1, batch.shape[1]):
        torch.mul(batch[:, None, k], feature[None, :, k], out=product)
        sums += product
        torch.maximum(largest, product, out=largest)
    return sums.flatten(0, 1), largest.flatten(0, 1)
