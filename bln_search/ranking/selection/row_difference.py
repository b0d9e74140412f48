"""The difference of two rows of one study: from its stored comparison, or from the losses by seed."""

from __future__ import annotations

from dataclasses import dataclass

from bln_search.core.records import RowKey
from bln_search.ranking.comparison import Comparison, MeanDifference
from bln_search.ranking.grouping import LossBySeed
from bln_search.ranking.selection.cross_study import loss_difference_between_studies
from bln_search.ranking.statistics.intervals import ALPHA, paired_t_test_p_value_of_differences


@dataclass(frozen=True)
class RowDifference:
    """Mean loss (nats) of the second row minus that of the first.

    Attributes:
        mean: Mean difference.
        low: Lower end of its 95 % confidence interval; None for one seed.
        high: Upper end of that interval.
        p: Two-sided p value; None where it is unknown.
        adjusted: Whether p is corrected for all pairs of the comparison. Such a difference is over seeds and
            examples, any other over seeds alone.
        paired: Whether both rows have the same seeds.
        accuracy: Difference of mean accuracies (fraction) from the comparison; None elsewhere.
    """

    mean: float
    low: float | None
    high: float | None
    p: float | None
    adjusted: bool
    paired: bool = True
    accuracy: MeanDifference | None = None

    @property
    def is_significant(self) -> bool:
        """Whether mean losses differ significantly (5 %)."""
        return self.p is not None and self.p < ALPHA


def find_compared_difference(first: RowKey, second: RowKey, comparison: Comparison | None) -> RowDifference | None:
    """Return the difference of two rows from a comparison.

    None unless one of them is its best row, and for a comparison over conditions.
    """
    indices = {} if comparison is None else {row.key: index for index, row in enumerate(comparison.rows)}
    if comparison is None or comparison.over or first not in indices or second not in indices:
        return None
    if 0 not in (indices[first], indices[second]):
        return None
    is_first_best = indices[first] == 0
    of_worse = comparison.rows[indices[second if is_first_best else first]]
    loss, accuracy = of_worse.above_best, of_worse.accuracy_above_best
    if not is_first_best:
        loss, accuracy = loss.with_rows_swapped, accuracy and accuracy.with_rows_swapped
    return RowDifference(loss.mean, loss.low, loss.high, loss.adjusted, adjusted=True, accuracy=accuracy)


def compute_difference_over_seeds(first: LossBySeed, second: LossBySeed) -> RowDifference:
    """Return the difference over seeds: paired where both rows have the same seeds, else Welch's, without p."""
    paired = first.keys() == second.keys()
    interval = loss_difference_between_studies(second, first)
    p = paired_t_test_p_value_of_differences([second[seed] - first[seed] for seed in sorted(first)]) if paired else None
    return RowDifference(interval.mean, interval.low, interval.high, p, adjusted=False, paired=paired)
