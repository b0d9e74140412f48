"""The answer of a study: the recommended configuration, how certain it is, and what else a user must know."""

from __future__ import annotations

from dataclasses import dataclass

from bln_search.core.configuration_explanation import explain_configuration
from bln_search.core.records import RowKey
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import Comparison, Verdict
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.selection.recommendation import Recommendation
from bln_search.reports.leaderboard_columns import LeaderboardView
from bln_search.reports.sentences.conditions import loss_over_conditions_definition
from bln_search.reports.sentences.leaderboard import format_sentence
from bln_search.reports.sentences.recommendation import loss_excess_text_unless_best, recommendation_reason
from bln_search.reports.sentences.significance import row_verdicts_text, verdict_text
from service.caching.leaderboard_cache import CachedLeaderboard
from service.pages.leaderboard.rows import RowWithConfidenceIntervals, make_row_with_confidence_intervals

_DEFAULT_MORE_SEEDS = 3
"""Seeds that are added where their required number is unknown."""


@dataclass(frozen=True)
class RecommendationSummary:
    """What the first lines of a study's page show.

    Attributes:
        explanation: What the recommended configuration does, in a sentence without letters.
        recommended: The recommended row.
        recommendation: Its recommendation.
        comparison: The comparison in which it was recommended.
        over_conditions: What its loss is over the conditions that decide; None where the loss that ranks decides.
        lowest: The row of lowest loss in the comparison; None if it is the recommended one.
        evidence: What the verdict means, what is known about the other rows, and how much data would decide.
        reason: Why the row is recommended.
        loss_excess: What it gives away to the row of lowest mean loss; None for that row.
        more_seeds: Seeds to add for a clear answer; None where it is clear, where more seeds cannot make it so, or for
            external results.
    """

    explanation: str
    recommended: RowWithConfidenceIntervals
    recommendation: Recommendation
    comparison: Comparison
    over_conditions: str | None
    lowest: RowWithConfidenceIntervals | None
    evidence: str
    reason: str
    loss_excess: str | None
    more_seeds: int | None


def find_recommended_row(board: CachedLeaderboard, analysis: Analysis | None) -> LeaderboardRow | None:
    """The recommended row in a leaderboard; None without a recommendation, or if the leaderboard lacks the row."""
    if analysis is None or analysis.recommendation is None:
        return None
    return _find_row(board, analysis.recommendation.key)


def find_recommendation_summary(
    board: CachedLeaderboard | None, analysis: Analysis | None
) -> RecommendationSummary | None:
    """The answer of a study; None before it is analyzed, or where rows cannot be compared."""
    if board is None or analysis is None or analysis.recommendation is None or analysis.comparison is None:
        return None
    row = find_recommended_row(board, analysis)
    return (
        None
        if row is None
        else _make_recommendation_summary(row, board, analysis, analysis.recommendation, analysis.comparison)
    )


def _make_recommendation_summary(
    row: LeaderboardRow,
    board: CachedLeaderboard,
    analysis: Analysis,
    recommendation: Recommendation,
    comparison: Comparison,
) -> RecommendationSummary:
    view = LeaderboardView.of_analysis(board.leaderboard, analysis)
    best = _find_row(board, comparison.rows[0].key)
    return RecommendationSummary(
        explanation=explain_configuration(row.configuration, row.estimate),
        recommended=make_row_with_confidence_intervals(row, view),
        recommendation=recommendation,
        comparison=comparison,
        over_conditions=loss_over_conditions_definition(comparison) if comparison.over else None,
        lowest=None if best is None or best.key == row.key else make_row_with_confidence_intervals(best, view),
        evidence=f"{verdict_text(recommendation, comparison)}. {format_sentence(row_verdicts_text(comparison))}",
        reason=_explain_choice(analysis, recommendation),
        loss_excess=loss_excess_text_unless_best(recommendation),
        more_seeds=None
        if recommendation.verdict is not Verdict.CANNOT_TELL or board.spec.external is not None
        else _find_num_additional_seeds(comparison),
    )


def _explain_choice(analysis: Analysis, recommendation: Recommendation) -> str:
    reason = format_sentence(recommendation_reason(recommendation)).removesuffix(".")
    if analysis.conditions_reason is None:
        return reason
    return f"{reason}; the conditions of the study do not decide: {analysis.conditions_reason}"


def _find_row(board: CachedLeaderboard, key: RowKey) -> LeaderboardRow | None:
    return next((row for row in board.leaderboard.rows if row.key == key), None)


def _find_num_additional_seeds(comparison: Comparison) -> int | None:
    """Seeds to add; None where they cannot decide, or only a number too large to name can.

    With a single seed, nothing is known about other trainings yet.
    """
    required = comparison.required
    if required is None or comparison.seeds == 1:
        return _DEFAULT_MORE_SEEDS
    return None if required.seeds is None else max(1, required.seeds - comparison.seeds)
