"""Whether normalization lowers the loss: the best row without normalization against the best row with it."""

from __future__ import annotations

from dataclasses import dataclass

from bln_search.core.configuration import mini_batch_configuration_of
from bln_search.core.method import Method
from bln_search.ranking.comparison import ComparedRow, Comparison, MeanDifference
from bln_search.ranking.statistics.intervals import ALPHA

WITHOUT_NORMALIZATION = mini_batch_configuration_of(Method.NONE)


@dataclass(frozen=True)
class NormalizationBenefit:
    """The best compared row without normalization (method `none`) and the best one with it.

    Attributes:
        loss_name: Name of the compared loss.
        plain: Row of lowest mean loss without normalization.
        normalized: Row of lowest mean loss with normalization.
        candidates: Number of compared rows with normalization, the best of which is `normalized`.
        difference: Mean loss (nats) of `plain` minus that of `normalized`; positive where normalization helps.
    """

    loss_name: str
    plain: ComparedRow
    normalized: ComparedRow
    candidates: int
    difference: MeanDifference

    @property
    def is_significant(self) -> bool:
        """Whether mean losses differ significantly (5 %, corrected for all pairs)."""
        return self.difference.adjusted < ALPHA


def compute_normalization_benefit(comparison: Comparison | None) -> NormalizationBenefit | None:
    """Compare the best rows with and without normalization; None where the comparison lacks one of them."""
    if comparison is None:
        return None
    is_plain = [row.configuration == str(WITHOUT_NORMALIZATION) for row in comparison.rows]
    if all(is_plain) or not any(is_plain):
        return None
    plain, normalized = is_plain.index(True), is_plain.index(False)
    of_worse = comparison.rows[max(plain, normalized)].above_best  # one of both is the best row
    loss = of_worse if plain > normalized else of_worse.with_rows_swapped
    rows = comparison.rows
    return NormalizationBenefit(comparison.loss_name, rows[plain], rows[normalized], is_plain.count(False), loss)
