"""Softmax cross-entropy of all rows behind the last normalization layer, from the parts of their logits.

Where a linear layer ends the network, the logits of a row are A_v + C_u, with few batch variants v and feature variants
u. With the target's logit taken off both parts, the loss of an example is

    log(1 + Σ_{k ≠ target} exp(A_vk)·exp(C_uk))

so the exponentials are taken of the parts, not of their sums. The answer is right where every product is below one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bln_search.norms.pair_sources import ByClass


def paired_cross_entropy(outputs: ByClass, targets: Tensor) -> tuple[Tensor, Tensor] | None:
    """Losses and correctness (rows, N, G) of classes `targets` (G, N); None where the parts do not allow it.

    They do not in less than single precision, where logits lie further apart than exponentials reach, where a target is
    none of the classes, and where two classes tie, which the usual order of classes then has to decide.
    """
    if outputs.feature.dtype not in (torch.float32, torch.float64):
        return None
    if int(targets.max()) >= outputs.feature.shape[1]:
        return None  # the usual way says so
    at = targets.t().contiguous()[None]
    count, feature = len(outputs.batch), outputs.feature
    parts = feature.new_empty((count + len(feature), *feature.shape[1:]))
    for part, relative in zip((*outputs.batch, *feature), parts, strict=True):
        torch.sub(part, part.gather(0, at), out=relative)
    parts.exp_()
    parts[:count].scatter_(1, at.expand(count, 1, -1, -1), 0.0)
    sums, largest = _products(parts[:count], parts[count:])
    if not torch.isfinite(sums.sum()) or (largest == 1).any():
        return None
    rows = [v * len(feature) + u for v, u in outputs.rows]
    if rows != list(range(len(sums))):
        sums, largest = sums[rows], largest[rows]
    return sums.log1p_(), largest < 1


def _products(batch: Tensor, feature: Tensor) -> tuple[Tensor, Tensor]:
    """Over classes, the sum and the largest of the products of each batch variant with each feature variant."""
    sums = batch[:, None, 0] * feature[None, :, 0]
    largest = sums.clone()
    product = torch.empty_like(sums)
    for k in range(1, batch.shape[1]):
        torch.mul(batch[:, None, k], feature[None, :, k], out=product)
        sums += product
        torch.maximum(largest, product, out=largest)
    return sums.flatten(0, 1), largest.flatten(0, 1)
