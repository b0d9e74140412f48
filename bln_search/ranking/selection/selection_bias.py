"""What choosing costs: the winner's figures where it was not chosen."""

from __future__ import annotations

from bln_search.core.enums import Split
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.stored_model import Kept


class Selection(Kept):
    """The first row on the split that chose it, and on the other one, where nothing was chosen.

    place_there: its rank by mean loss on the other split. regret: its mean loss there less that of the row that is best
    there, which the choice could not know. gap: its mean loss there less here.
    """

    chosen_on: Split
    reported_on: Split
    loss: float
    loss_there: float
    accuracy_there: float
    place_there: int
    of: int
    regret: float
    accuracy_regret: float

    @property
    def gap(self) -> float:
        """Mean loss there less here."""
        return self.loss_there - self.loss


def selection(board: Leaderboard) -> Selection | None:
    """Of the first row; None where nothing is ranked or the other split was not evaluated."""
    chosen_on = board.ranked_on
    other = Split.TEST if chosen_on is Split.VALIDATION else Split.VALIDATION
    ranked = [row for row in board.rows if row.rank is not None and other in row.figures]
    best = board.best
    if best is None or other not in best.figures:
        return None

    def loss(row: LeaderboardRow) -> float:
        return row.figures[other].loss.mean

    there = best.figures[other]
    return Selection(
        chosen_on=chosen_on,
        reported_on=other,
        loss=best.figures[chosen_on].loss.mean,
        loss_there=there.loss.mean,
        accuracy_there=there.accuracy.mean,
        place_there=1 + sum(loss(row) < there.loss.mean for row in ranked),
        of=len(ranked),
        regret=there.loss.mean - min(loss(row) for row in ranked),
        accuracy_regret=max(row.figures[other].accuracy.mean for row in ranked) - there.accuracy.mean,
    )
