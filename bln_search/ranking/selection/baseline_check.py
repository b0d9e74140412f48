"""Detect networks that have not learned: no row better than the class-prior baseline."""

from __future__ import annotations

from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.enums import Split
from bln_search.ranking.analysis_part import StoredAnalysisModel
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow


class ArmsNoBetterThanPrior(StoredAnalysisModel):
    """Arms whose best row has no lower loss than predicting the class frequencies for every example.

    Attributes:
        arms: Labels of these arms, by increasing loss of their best row.
        all_arms: Whether these are all ranked arms.
        split: Split on which rows are ranked.
        loss: Mean loss (nats) over seeds of the best of these rows on `split`.
        accuracy: Mean accuracy (fraction) over seeds of the same row.
        baseline: Loss and accuracy of the class-prior baseline on `split`.
    """

    arms: tuple[str, ...]
    all_arms: bool
    split: Split
    loss: float
    accuracy: float
    baseline: ClassPriorBaseline


def find_arms_no_better_than_prior(
    board: Leaderboard, baseline: ClassPriorBaseline | None
) -> ArmsNoBetterThanPrior | None:
    """Find the arms whose best ranked row has no lower loss than the baseline.

    Returns:
        None where every arm has a row that is better, or the baseline is unknown.
    """
    if baseline is None:
        return None
    split = board.ranked_on
    best_of_arm: dict[str, LeaderboardRow] = {}
    for row in board.rows:  # by increasing loss
        if row.rank is not None:
            best_of_arm.setdefault(row.arm, row)
    not_better = [row for row in best_of_arm.values() if row.metrics[split].loss.mean >= baseline.loss]
    if not not_better:
        return None
    metrics = not_better[0].metrics[split]
    if metrics.accuracy is None:  # a score without correctness has no class prior
        return None
    return ArmsNoBetterThanPrior(
        arms=tuple(row.arm for row in not_better),
        all_arms=len(not_better) == len(best_of_arm),
        split=split,
        loss=metrics.loss.mean,
        accuracy=metrics.accuracy.mean,
        baseline=baseline,
    )
