"""LAME: Laplacian adjusted maximum-likelihood estimation of the outputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bln_search.adaptation.affinity import AffinityName, compute_affinities
from bln_search.adaptation.output_correction import OutputCorrection

_MAX_ITERATIONS = 100
_TOLERANCE = 1e-8


class Lame(OutputCorrection):
    """Corrects the outputs of a mini-batch, so that similar examples get similar ones; no weight changes.

    With q_i the probabilities of the network and w_ij the affinities of the features, the corrected probabilities z_i
    minimize Σ_i KL(z_i ‖ q_i) − Σ_ij w_ij·z_iᵀz_j. The concave-convex procedure starts at z = q and repeats, for all
    examples at once,

        z_ik ← q_ik·exp(Σ_j w_ij z_jk) / Σ_c q_ic·exp(Σ_j w_ij z_jc),

    until the bound Σ_i z_iᵀ(ln z_i − ln q_i − Σ_j w_ij z_j), with the previous z_j, changes by at most 1e-8 of itself,
    after three iterations at least and 100 at most. The corrected logits are ln z.

    The features are the input of the last dense layer, see `predict_with_features`.

    Source: Boudiaf et al. 2022, Parameter-free online test-time adaptation, section 4.

    Args:
        network: See `Adaptation`.
        affinity: `knn`, `rbf` or `linear`, see `compute_affinities`.
        neighbors: k of `knn` and `rbf`.
    """

    def __init__(self, network: nn.Module, *, affinity: AffinityName = "knn", neighbors: int = 5) -> None:
        super().__init__(network)
        self.affinity, self.neighbors = affinity, neighbors

    @torch.no_grad()
    def correct(self, outputs: Tensor, features: Tensor) -> Tensor:
        """Return ln z (n, classes) of a mini-batch.

        Args:
            outputs: Logits of the network, (n, classes).
            features: (n, d), whose affinities count.
        """
        affinities = compute_affinities(features.to(outputs.dtype), self.affinity, self.neighbors)
        log_q = outputs.log_softmax(1)
        log_z, previous_bound = log_q, float("inf")
        for iteration in range(_MAX_ITERATIONS):
            attraction = affinities @ log_z.exp()
            log_z = (log_q + attraction).log_softmax(1)
            bound = float((log_z.exp() * (log_z - log_q - attraction)).sum())
            change = abs(bound - previous_bound)
            if iteration > 1 and not change > _TOLERANCE * abs(previous_bound):  # NaN ends too
                break
            previous_bound = bound
        return log_z

    def reset(self) -> None:
        """Nothing changes from mini-batch to mini-batch but what the network itself keeps."""
