"""How a stored value and that of the present mini-batch give one statistic: the one expression of every mixture.

With the share s of the stored values, mean μ and variance v of the mini-batch, stored mean M and variance S:

    E = (1 − s)·μ + s·M,        V = (1 − s)·v + s·S + s·(1 − s)·(μ − P)²

The last term is the variance between both sets of values, around the mean P of a memory; without it V is the mean of
the variances. ε counts once under the root, so v and S have both ε or both none. MBN's training (Eq. 5-7), its source C
and blends (source B) differ in s and in the last term only.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from bln_search.core.blend import PopulationWeight


@dataclass(frozen=True)
class MemoryMeanAndWeight:
    """What the rule of MBN's training needs of the memory, beside its mean and deviation.

    Attributes:
        mean: μ of the memory, around which the distance of the mini-batch counts.
        values: N = λ Σ η^age n_i, the number of values for which the memory counts beside those of the mini-batch.
    """

    mean: Tensor
    values: float


@dataclass(frozen=True)
class StoredAndMiniBatchMixture:
    """A statistic as α·stored + (1 − α)·mini-batch, of means and of variances.

    Attributes:
        blend: the weight α of a blend (source B); None where the memory determines it.
        memory_values: N, with α = N/(N + n) for a mini-batch of n values (source C; MBN paper, Eq. 5-6).
        has_between_variance: whether the variance has the term α(1 − α)·(μ_stored − μ_mini-batch)² too, as the
            variance of both sets of values together has.
    """

    blend: PopulationWeight | None = None
    memory_values: float = 0.0
    has_between_variance: bool = False

    def stored_share(self, examples: int, values: int) -> float:
        """Return α.

        Args:
            examples: number of examples in the mini-batch.
            values: number of values in the mini-batch that one mean averages.
        """
        if self.blend is not None:
            return self.blend.population_share(examples)
        return self.memory_values / (self.memory_values + values)


def mix_means(mini_batch: Tensor, stored: Tensor, share: float | Tensor) -> Tensor:
    """Return E; see the module for the formula."""
    return (1 - share) * mini_batch + share * stored  # torch.lerp refuses the mixed precision of autocast


def mix_variances(mini_batch: Tensor, stored: Tensor, share: float | Tensor, distance: Tensor | None = None) -> Tensor:
    """Return V; see the module for the formula.

    Args:
        mini_batch: v.
        stored: S.
        share: s.
        distance: μ − P; None without the variance between both.
    """
    variance = mix_means(mini_batch, stored, share)
    return variance if distance is None else variance + share * (1 - share) * distance.square()
