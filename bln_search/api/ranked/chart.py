"""The chart of a ranked table: mean losses with their confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bln_search.api.ranked.figures import make_plotly_figure
from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.paired.sum_of_means import compare_sums_of_means_with_zero
from bln_search.ranking.selection.row_cost import is_deterministic_configuration
from bln_search.reports.charts.ranked_rows import RowLoss, row_losses_chart


def plot_row_losses(
    labels: Mapping[RowKey, str],
    losses: NDArray[np.float32] | NDArray[np.float64],
    *,
    recommended: RowKey,
    per_slot: bool,
    split: Split,
    scope: str,
) -> Any:
    """Return the mean loss of each row with its 95 % confidence interval, as a `plotly.graph_objects.Figure`.

    Args:
        labels: Of the rows, in the order of the chart.
        losses: (networks, rows, examples), in nats.
        recommended: The row to mark.
        per_slot: Each slot of the mini-batch has its own population values.
        split: Of the examples, for the title.
        scope: What the intervals generalize to, for the title.

    Raises:
        MissingPackageError: plotly is not installed.
    """
    intervals = compare_sums_of_means_with_zero([losses.astype(np.float64)])
    rows = [
        RowLoss(
            label,
            float(intervals.mean[position]),
            float(intervals.half[position]),
            is_independent=is_deterministic_configuration(key.configuration, per_slot=per_slot),
            is_recommended=key == recommended,
        )
        for position, (key, label) in enumerate(labels.items())
    ]
    return make_plotly_figure(row_losses_chart(rows, split=str(split), scope=scope))
