"""How much of the variance of each metric every factor explains."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.ranking.study_effects import VarianceShares
from bln_search.reports.charts.chart import Chart, colour, layout


def variance_chart(found: Sequence[VarianceShares], arm: str, point: str) -> Chart | None:
    """A bar for each metric, cut by factor; None where the arm has no balanced design."""
    chosen = [one for one in found if (one.arm, one.point) == (arm, point)]
    if not chosen:
        return None
    metrics = [f"{one.split} {one.metric}" for one in chosen]
    names = list(dict.fromkeys(name for one in chosen for name, _ in one.shares))
    shares = [dict(one.shares) for one in chosen]
    traces = [
        {
            "type": "bar",
            "name": name,
            "x": metrics,
            "y": [100 * one.get(name, 0.0) for one in shares],
            "marker": {"color": colour(position)},
            "hovertemplate": f"%{{x}}, {name}: %{{y:.1f}} %<extra></extra>",
        }
        for position, name in enumerate(names)
    ]
    figure = {
        "data": traces,
        "layout": layout("", "share of the variance (%)", barmode="stack", xaxis={"type": "category"}),
    }
    rows = [
        {"split": one.split.value, "metric": one.metric, "factor": name, "share": share}
        for one in chosen
        for name, share in one.shares
    ]
    about = (
        "Share of the total sum of squares that each factor explains by itself (eta squared), then of the interactions "
        "of the switches, then the residual."
    )
    return Chart("Variance shares by factor", about, figure, rows)
