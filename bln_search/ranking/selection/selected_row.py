"""Performance of the selected row on the split that was not used to select it."""

from __future__ import annotations

from bln_search.core.enums import Split
from bln_search.ranking.analysis_part import StoredAnalysisModel
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow


class SelectedRowPerformance(StoredAnalysisModel):
    """The first row on the split that selected it and on the other split, which is independent of the selection.

    Attributes:
        chosen_on: Split that decides the ranking.
        reported_on: The other split.
        loss: Mean loss (nats) on `chosen_on`.
        other_loss: Mean loss (nats) on `reported_on`.
        other_accuracy: Mean accuracy (fraction) on `reported_on`; None for a score without correctness.
        other_rank: Rank by mean loss on `reported_on`.
        ranked_rows: Number of ranked rows with results on `reported_on`.
        regret: Mean loss on `reported_on` minus that of the best row there.
        accuracy_regret: Highest mean accuracy on `reported_on` minus that of the selected row; None without accuracies.
    """

    chosen_on: Split
    reported_on: Split
    loss: float
    other_loss: float
    other_accuracy: float | None
    other_rank: int
    ranked_rows: int
    regret: float
    accuracy_regret: float | None


def find_selected_row_performance(board: Leaderboard) -> SelectedRowPerformance | None:
    """Evaluate the first row on the other split; None where no row is ranked or that split was not evaluated."""
    chosen_on = board.ranked_on
    other = Split.TEST if chosen_on is Split.VALIDATION else Split.VALIDATION
    ranked = [row for row in board.rows if row.rank is not None and other in row.metrics]
    best = board.best_row
    if best is None or other not in best.metrics:
        return None

    def loss(row: LeaderboardRow) -> float:
        return row.metrics[other].loss.mean

    metrics = best.metrics[other]
    accuracy = None if metrics.accuracy is None else metrics.accuracy.mean
    accuracies = [row.metrics[other].accuracy for row in ranked]
    return SelectedRowPerformance(
        chosen_on=chosen_on,
        reported_on=other,
        loss=best.metrics[chosen_on].loss.mean,
        other_loss=metrics.loss.mean,
        other_accuracy=accuracy,
        other_rank=1 + sum(loss(row) < metrics.loss.mean for row in ranked),
        ranked_rows=len(ranked),
        regret=metrics.loss.mean - min(loss(row) for row in ranked),
        accuracy_regret=None
        if accuracy is None
        else max(value.mean for value in accuracies if value is not None) - accuracy,
    )
