"""The measured variants of a check as a table."""

from __future__ import annotations

from bln_search.ranking.comparison import MeanDifference
from bln_search.ranking.network_check import NetworkCheck
from bln_search.reports.formatting import format_loss, format_signed
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable


def make_variant_table(check: NetworkCheck, title: str = "") -> FittedTable:
    """One row for each variant and mini-batch size."""
    rows = check.variants
    unit = f" in {check.loss_unit}" if check.loss_unit else ""
    columns = [
        Column("network", [str(row.variant) for row in rows], is_key=True),
        Column(
            "batch", [str(row.batch_size) for row in rows], CellKind.NUMBER, legend="batch: inference mini-batch size"
        ),
        Column(
            "loss",
            ["not finite" if row.loss is None else format_loss(row.loss) for row in rows],
            CellKind.NUMBER,
            legend=f"loss: mean {check.loss_name}{unit} over {check.examples:,} examples",
        ),
        Column(
            "accuracy",
            ["–" if row.accuracy is None else f"{100 * row.accuracy:.2f} %" for row in rows],
            CellKind.NUMBER,
        ),
        Column(
            "difference (95 %)",
            ["–" if row.difference is None else format_difference(row.difference) for row in rows],
            CellKind.NUMBER,
            legend="difference: loss minus that of the deployed network",
        ),
        Column(
            "p",
            ["–" if row.difference is None else f"{row.difference.adjusted:.2g}" for row in rows],
            CellKind.NUMBER,
            legend="p: corrected for all changes tried",
            drop_order=1,
        ),
    ]
    return FittedTable(columns, title)


def format_difference(difference: MeanDifference) -> str:
    """A difference with its interval."""
    return f"{format_signed(difference.mean)} [{format_signed(difference.low)}, {format_signed(difference.high)}]"
