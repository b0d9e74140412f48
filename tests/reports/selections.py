"""The performance of a selected row on the other split."""

from __future__ import annotations

from bln_search.core.enums import Split
from bln_search.ranking.selection.selected_row import SelectedRowPerformance

SELECTED = SelectedRowPerformance(
    chosen_on=Split.VALIDATION,
    reported_on=Split.TEST,
    loss=0.5,
    other_loss=0.6,
    other_accuracy=0.9,
    other_rank=2,
    ranked_rows=4,
    regret=0.01,
    accuracy_regret=0.0,
)
