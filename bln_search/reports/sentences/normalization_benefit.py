"""Text about a network without normalization beside networks with it."""

from __future__ import annotations

from bln_search.ranking.comparison import ComparedRow
from bln_search.ranking.selection.normalization_benefit import NormalizationBenefit
from bln_search.reports.sentences.recommendation import row_label


def normalization_sentence(benefit: NormalizationBenefit) -> str:
    """Whether normalization lowers the loss, with difference, interval and p."""
    difference = benefit.difference
    statement = f"No significant difference between networks with and without normalization in {benefit.split} loss"
    if benefit.is_significant:
        statement = f"Normalization {'lowers' if difference.mean > 0 else 'raises'} the {benefit.split} loss"
    chosen = f", the best of {benefit.candidates} rows" if benefit.candidates > 1 else ""
    return (
        f"{statement}: {_loss(benefit.plain)} without, {_loss(benefit.normalized)} with{chosen}; difference "
        f"{difference.mean:+.4f}, 95 % confidence interval {difference.low:+.4f} to {difference.high:+.4f}, "
        f"p = {difference.p:.2g}, {difference.adjusted:.2g} after Holm's correction."
    )


def _loss(row: ComparedRow) -> str:
    return f"{row.loss:.4f} ({row_label(row)})"
