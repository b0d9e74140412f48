"""Text of an analysis: recommendation, significance, variance shares, selection bias."""

from __future__ import annotations

from bln_search.core.enums import Split
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import Comparison
from bln_search.ranking.selection.normalization_benefit import compute_normalization_benefit
from bln_search.ranking.selection.recommendation import Recommendation
from bln_search.ranking.selection.selected_row import SelectedRowPerformance
from bln_search.ranking.statistics.eta_squared import RESIDUAL, SWITCH_INTERACTIONS
from bln_search.ranking.study_effects import VarianceShares
from bln_search.reports.sentences.baseline_check import class_prior_baseline_warning
from bln_search.reports.sentences.leaderboard import RANKED_ON_TEST, format_sentence
from bln_search.reports.sentences.normalization_benefit import normalization_benefit_sentence
from bln_search.reports.sentences.recommendation import (
    recommendation_text,
    row_identity_label,
    significant_digits_of_compared_points,
)
from bln_search.reports.sentences.significance import PROVISIONAL, comparison_method_text, row_verdicts_text
from bln_search.specs.sections.space import format_encoded_point

_MIN_WRITTEN_SHARE = 0.005
_MIN_WRITTEN_BIAS = 0.00005
"""Smallest loss that is not written as 0.0000."""

FACTOR_NAMES = {SWITCH_INTERACTIONS: "switch interactions", RESIDUAL: "residual"}
"""Standard terms for factors whose stored names differ from them."""


def analysis_sentences(analysis: Analysis, *, standalone: bool = False) -> list[str]:
    """The analysis as text, one topic per item.

    Args:
        analysis: The analysis.
        standalone: Whether no table next to the text says on which split rows are ranked.
    """
    sentences = [*([PROVISIONAL] if analysis.is_provisional else []), *_recommendation_sentences(analysis)]
    comparison = analysis.comparison
    if standalone and comparison is not None and comparison.split is Split.TEST:
        sentences.append(format_sentence(RANKED_ON_TEST))
    if comparison is None:
        return [*sentences, f"Rows are not compared: {analysis.reason}."] if analysis.reason else sentences
    method = comparison_method_text(comparison, analysis.looks)
    sentences.append(f"{format_sentence(row_verdicts_text(comparison))} {method}")
    benefit = compute_normalization_benefit(comparison)
    if benefit is not None:
        sentences.append(normalization_benefit_sentence(benefit))
    sentences += variance_sentences(analysis)
    if analysis.selection is not None:
        sentences.append(selection_bias_sentence(analysis.selection, comparison, analysis.recommendation))
    return sentences


def variance_sentences(analysis: Analysis) -> list[str]:
    """The variance shares of the compared loss."""
    comparison = analysis.comparison
    return [
        _variance_shares_text(shares)
        for shares in analysis.shares
        if comparison is not None and (shares.split, shares.metric) == (comparison.split, "loss")
    ]


def _recommendation_sentences(analysis: Analysis) -> list[str]:
    """The recommendation; where no arm is better than the class-prior baseline, that warning comes first."""
    recommendation, digits = analysis.recommendation, significant_digits_of_compared_points(analysis.comparison)
    sentences = [] if recommendation is None else [recommendation_text(recommendation, digits, analysis.comparison)]
    check = analysis.no_better_than_class_prior
    if check is None:
        return sentences
    return (
        [class_prior_baseline_warning(check), *sentences]
        if check.all_arms
        else [*sentences, class_prior_baseline_warning(check)]
    )


def _variance_shares_text(shares: VarianceShares) -> str:
    point = f" {format_encoded_point(shares.point)}" if shares.point else ""
    parts = ", ".join(
        f"{FACTOR_NAMES.get(name, name)} {share:.0%}" for name, share in shares.shares if share >= _MIN_WRITTEN_SHARE
    )
    return f"Shares of the variance of the {shares.split} loss of {shares.arm}{point}: {parts}."


def selection_bias_sentence(
    performance: SelectedRowPerformance, comparison: Comparison, recommendation: Recommendation | None = None
) -> str:
    """Loss of the selected row, its selection bias, and its loss on the other split.

    Args:
        performance: The selected row, that of lowest loss.
        comparison: The comparison.
        recommendation: Recommendation beside the text; where it is the selected row, the text does not repeat its name.
    """
    digits = significant_digits_of_compared_points(comparison)
    row = (
        "The recommended row"
        if recommendation is not None and recommendation.is_best
        else f"The row of lowest {performance.chosen_on} loss, {row_identity_label(comparison.rows[0], digits)},"
    )
    qualifier = "at least" if comparison.not_compared else "about"
    bias = (
        f", optimistic by {qualifier} {comparison.optimism:.4f} (selection bias),"
        if comparison.optimism >= _MIN_WRITTEN_BIAS
        else ""
    )
    distance = f", {performance.regret:.4f} above the best" if performance.regret >= _MIN_WRITTEN_BIAS else ""
    return (
        f"{row} has {performance.loss:.4f} on {performance.chosen_on}{bias} and {performance.other_loss:.4f} on "
        f"{performance.reported_on}: rank {performance.other_rank} of {performance.ranked_rows}{distance}."
    )
