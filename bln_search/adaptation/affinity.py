"""Affinities of the examples of a mini-batch, for LAME."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

AffinityName = Literal["knn", "rbf", "linear"]


def compute_affinities(features: Tensor, name: AffinityName, neighbors: int) -> Tensor:
    """Return w_ij (n, n) from features φ_i of length one.

    - `knn`: w_ij = 1 if j is one of the k nearest neighbors of i, else 0; not symmetric, and w_ii = 0.
    - `rbf`: w_ij = exp(−‖φ_i − φ_j‖²/(2σ²)), σ the mean distance to the k-th nearest neighbor.
    - `linear`: w_ij = φ_iᵀφ_j.

    Source: Boudiaf et al. 2022, section 4.2.

    Args:
        features: (n, d), of any length.
        name: of the affinity.
        neighbors: k; a mini-batch of n examples has at most n − 1.
    """
    features = normalize(features, dim=1)
    if name == "linear":
        return features @ features.T
    distances = torch.cdist(features, features, compute_mode="donot_use_mm_for_euclid_dist")
    nearest = distances.clone().fill_diagonal_(torch.inf).topk(min(neighbors, len(features) - 1), largest=False)
    if name == "knn":
        return torch.zeros_like(distances).scatter_(1, nearest.indices, 1.0)
    tiny = torch.finfo(distances.dtype).tiny ** 0.25  # for equal examples, and for a single one
    width = nearest.values[:, -1].mean().clamp_min(tiny) if nearest.values.numel() else tiny
    return torch.exp(-distances.square() / (2 * width**2))
