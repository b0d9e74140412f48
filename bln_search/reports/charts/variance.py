"""Chart of the share of the variance of each metric that every factor explains."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.ranking.study_effects import VarianceShares
from bln_search.reports.charts.chart import Chart, plotly_layout, series_colour


def variance_shares_chart(variance_shares: Sequence[VarianceShares], arm: str, point: str) -> Chart | None:
    """A stacked bar of factors for each metric; None if the arm has no balanced design."""
    of_arm = [
        metric_shares for metric_shares in variance_shares if (metric_shares.arm, metric_shares.point) == (arm, point)
    ]
    if not of_arm:
        return None
    metrics = [f"{metric_shares.split} {metric_shares.metric}" for metric_shares in of_arm]
    names = list(dict.fromkeys(name for metric_shares in of_arm for name, _ in metric_shares.shares))
    shares = [dict(metric_shares.shares) for metric_shares in of_arm]
    traces = [
        {
            "type": "bar",
            "name": name,
            "x": metrics,
            "y": [100 * metric_shares.get(name, 0.0) for metric_shares in shares],
            "marker": {"color": series_colour(position)},
            "hovertemplate": f"%{{x}}, {name}: %{{y:.1f}} %<extra></extra>",
        }
        for position, name in enumerate(names)
    ]
    figure = {
        "data": traces,
        "layout": plotly_layout("", "share of the variance (%)", barmode="stack", xaxis={"type": "category"}),
    }
    rows = [
        {"split": metric_shares.split.value, "metric": metric_shares.metric, "factor": name, "share": share}
        for metric_shares in of_arm
        for name, share in metric_shares.shares
    ]
    caption = (
        "Share of the total sum of squares that each factor explains by itself (eta squared), then of the interactions "
        "of the switches, then the residual."
    )
    return Chart("Variance shares by factor", caption, figure, rows)
