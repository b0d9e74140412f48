"""The chart of a check: what each change does to the loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bln_search.ranking.comparison import RowVerdict
from bln_search.ranking.network_check import CheckedVariant, NetworkCheck, Variant
from bln_search.reports.charts.chart import Chart, axis_title
from bln_search.reports.charts.comparison import differences_chart
from bln_search.reports.charts.drawn_rows import IN_USE, RECOMMENDED


def variant_differences_chart(check: NetworkCheck) -> Chart | None:
    """Loss of each variant minus that of the deployed network, with its interval; None without a finite difference."""
    deployed = check.deployed
    changed = [row for row in check.variants if row.difference is not None and row.variant is not Variant.DEPLOYED]
    if not changed:
        return None
    sizes = {row.batch_size for row in changed}
    rows: list[dict[str, Any]] = [
        {"row": str(deployed.variant), "verdict": "", "difference": 0.0, "low": 0.0, "high": 0.0}
    ]
    rows += [_make_row(row, has_sizes=len(sizes) > 1) for row in changed]
    chosen = check.find(check.chosen)
    chart = differences_chart(
        rows,
        [""] * len(rows),
        check.margin,
        axis_title(f"{check.loss_name} minus that of the deployed network", check.loss_unit),
        "Bars are 95 % confidence intervals, corrected for all changes tried. Shaded: practically equal to the "
        "deployed network. Left of it: better. Open marks: worse.",
        unit=check.loss_unit,
        marks={RECOMMENDED: changed.index(chosen) + 1 if chosen in changed else 0, IN_USE: 0},
        lower_is_better=True,
    )
    return replace(chart, title="Differences to the deployed network")


def _make_row(row: CheckedVariant, *, has_sizes: bool) -> dict[str, Any]:
    difference = row.difference
    assert difference is not None
    return {
        "row": f"{row.variant}, m = {row.batch_size}" if has_sizes else str(row.variant),
        "verdict": RowVerdict.WORSE if difference.low > 0 else "",
        "difference": difference.mean,
        "low": difference.low,
        "high": difference.high,
    }
