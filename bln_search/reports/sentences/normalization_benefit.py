"""Text about a network without normalization beside networks with it."""

from __future__ import annotations

from bln_search.ranking.comparison import ComparedRow
from bln_search.ranking.selection.normalization_benefit import NormalizationBenefit
from bln_search.reports.formatting import format_signed
from bln_search.reports.sentences.recommendation import row_identity_label


def normalization_benefit_sentence(benefit: NormalizationBenefit) -> str:
    """Whether normalization lowers the loss, with difference, interval and p."""
    difference = benefit.difference
    statement = f"No significant difference between networks with and without normalization in {benefit.split} loss"
    if benefit.is_significant:
        statement = f"Normalization {'lowers' if difference.mean > 0 else 'raises'} the {benefit.split} loss"
    chosen = f", the best of {benefit.candidates} rows" if benefit.candidates > 1 else ""
    return (
        f"{statement}: {_format_row_loss(benefit.plain)} without, {_format_row_loss(benefit.normalized)} "
        f"with{chosen}; difference "
        f"{format_signed(difference.mean)}, 95 % confidence interval {format_signed(difference.low)} to "
        f"{format_signed(difference.high)}, "
        f"p = {difference.p:.2g}, {difference.adjusted:.2g} after correction for all pairs."
    )


def _format_row_loss(row: ComparedRow) -> str:
    return f"{row.loss:.4f} ({row_identity_label(row)})"
