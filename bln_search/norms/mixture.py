"""How a stored value and that of the present mini-batch give one statistic, for sources that are mixtures of both."""

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
