"""Chart of the factorial of MBN."""

from __future__ import annotations

from plotly import graph_objects as go
from plotly.subplots import make_subplots

from bln_search.ranking.statistics.intervals import mean_with_t_interval
from bln_search.reports.charts.chart import series_colour
from papers.experiments.factorial import MBN, read_cells

STUDY = "mbn_factorial_mnist"


def factorial_chart() -> go.Figure:
    """Return the test error by size of the memory, a line for each λ and a panel for each learning rate."""
    cells = read_cells(STUDY, MBN)
    schedules, memories, rates = ([*dict.fromkeys(levels[place] for levels in cells)] for place in range(3))
    memories, rates = sorted(memories, key=int), sorted(rates, key=float)
    chart = make_subplots(1, len(rates), shared_yaxes=True, subplot_titles=[f"learning rate {rate}" for rate in rates])
    for position, schedule in enumerate(sorted(schedules)):
        for column, rate in enumerate(rates, start=1):
            intervals = [mean_with_t_interval(list(cells[schedule, memory, rate].values())) for memory in memories]
            chart.add_scatter(
                x=[index + (position - 2) * 0.06 for index in range(len(memories))],
                y=[interval.mean for interval in intervals],
                error_y={"array": [interval.half or 0.0 for interval in intervals], "thickness": 1},
                name=f"λ {'rising' if ':' in schedule else schedule}",
                line={"color": series_colour(position), "dash": "dot" if schedule == "0" else "solid"},
                showlegend=column == 1,
                row=1,
                col=column,
            )
    chart.update_xaxes(title="k, size of the memory", tickvals=list(range(len(memories))), ticktext=memories)
    return chart.update_yaxes(title="test error (%)", row=1, col=1)
