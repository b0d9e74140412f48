"""Text about a recommendation over the conditions of a study."""

from __future__ import annotations

from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import Comparison
from bln_search.ranking.condition_metrics import WORST
from bln_search.ranking.selection.recommendation import Recommendation
from bln_search.reports.sentences.leaderboard import format_sentence

_MAX_NAMED_CONDITIONS = 8


def condition_facts(analysis: Analysis) -> list[str]:
    """What the compared loss is, and the loss of the recommended row that ranks; or why conditions do not decide.

    Empty for a study without conditions.
    """
    comparison, recommendation = analysis.comparison, analysis.recommendation
    if analysis.conditions_reason is not None:
        return [format_sentence(f"the conditions of the study do not decide: {analysis.conditions_reason}")]
    if comparison is None or comparison.over is None:
        return []
    return [
        format_sentence(f"rows are compared by {loss_over_conditions_definition(comparison)}"),
        *([] if recommendation is None else _ranking_loss_sentences(comparison, recommendation)),
    ]


def loss_over_conditions_definition(comparison: Comparison) -> str:
    """What the loss is by which rows are compared."""
    *first, last = comparison.conditions
    names = f"{', '.join(first)} and {last}" if first else last
    if len(comparison.conditions) > _MAX_NAMED_CONDITIONS:
        names = f"the {len(comparison.conditions)} conditions of the study"
    return f"the {'highest' if comparison.over == WORST else 'mean'} loss under {names}"


def _ranking_loss_sentences(comparison: Comparison, recommendation: Recommendation) -> list[str]:
    loss, above = recommendation.ranking_loss, recommendation.ranking_loss_above_best
    if loss is None:
        return []
    distance = f"{above:.4f} above the lowest" if above else "the lowest"
    return [f"The leaderboard ranks by {comparison.split} loss: that of the recommended row is {loss:.4f}, {distance}."]
