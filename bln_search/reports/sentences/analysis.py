"""Text of an analysis: the recommended row, the facts that belong to it, and the statistics behind them."""

from __future__ import annotations

from dataclasses import dataclass

from bln_search.core.configuration_explanation import explain_configuration
from bln_search.core.enums import Split
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import Comparison, Verdict
from bln_search.ranking.effect_records import RESIDUAL, SWITCH_INTERACTIONS, VarianceShares
from bln_search.ranking.selection.normalization_benefit import compute_normalization_benefit
from bln_search.ranking.selection.recommendation import Recommendation
from bln_search.ranking.selection.selected_row import SelectedRowPerformance
from bln_search.reports.sentences.conditions import condition_facts
from bln_search.reports.sentences.leaderboard import RANKED_ON_TEST, format_sentence
from bln_search.reports.sentences.recommendation import (
    class_prior_baseline_warning,
    normalization_benefit_sentence,
    recommendation_caveats,
    recommendation_headline,
    recommendation_loss_and_dependence_text,
    recommendation_reason,
    row_identity_label,
    significant_digits_of_compared_points,
)
from bln_search.reports.sentences.significance import (
    PROVISIONAL,
    comparison_method_text,
    required_data_assumptions_text,
    row_verdicts_text,
    verdict_text,
)
from bln_search.specs.sections.space import format_encoded_point

_MIN_WRITTEN_SHARE = 0.005
_MIN_WRITTEN_BIAS = 0.00005
"""Smallest loss that is not written as 0.0000."""

FACTOR_NAMES = {SWITCH_INTERACTIONS: "switch interactions", RESIDUAL: "residual"}
"""Standard terms for factors whose stored names differ from them."""


@dataclass(frozen=True)
class StudyResultSummary:
    """The result of a study as text.

    Attributes:
        warnings: What a reader must know first, in sentences.
        headline: The recommended row; None without a recommendation.
        figures: Its loss, what it gives away to the best row, and whether it depends on the mini-batch.
        facts: What its configuration does, the verdict, why it is recommended, and the selection bias; in sentences.
        details: Statistics behind the facts, in sentences.
    """

    warnings: tuple[str, ...]
    headline: str | None
    figures: str
    facts: tuple[str, ...]
    details: tuple[str, ...]

    @property
    def sentences(self) -> list[str]:
        """Everything as sentences: warnings, the recommended row, facts and details."""
        headline = [] if self.headline is None else [f"{self.headline} – {self.figures}."]
        return [*self.warnings, *headline, *self.facts, *self.details]

    @property
    def summary_lines(self) -> list[str]:
        """Warnings, the recommended row, and facts as bullets."""
        headline = [] if self.headline is None else [f"{self.headline} – {self.figures}"]
        return [*(f"Warning: {text}" for text in self.warnings), *headline, *(f"• {text}" for text in self.facts)]


def analysis_sentences(analysis: Analysis, *, standalone: bool = False) -> list[str]:
    """The analysis as text, one topic per item; for the arguments see `summarize_analysis`."""
    return summarize_analysis(analysis, standalone=standalone).sentences


def summarize_analysis(analysis: Analysis, *, standalone: bool = False) -> StudyResultSummary:
    """Summarize an analysis.

    Args:
        analysis: The analysis.
        standalone: Whether no table next to the text says on which split rows are ranked.
    """
    comparison, recommendation = analysis.comparison, analysis.recommendation
    if comparison is None:
        facts = () if analysis.reason is None else (format_sentence(f"rows are not compared: {analysis.reason}"),)
        return StudyResultSummary(_warning_lines(analysis, standalone=False), None, "", facts, ())
    return StudyResultSummary(
        warnings=_warning_lines(analysis, standalone=standalone),
        headline=None
        if recommendation is None
        else recommendation_headline(recommendation, significant_digits_of_compared_points(comparison)),
        figures=""
        if recommendation is None
        else recommendation_loss_and_dependence_text(recommendation, comparison.loss_name),
        facts=tuple(_fact_lines(analysis, comparison, recommendation)),
        details=tuple(_detail_lines(analysis, comparison)),
    )


def _warning_lines(analysis: Analysis, *, standalone: bool) -> tuple[str, ...]:
    warnings = [PROVISIONAL] if analysis.is_provisional else []
    if standalone and analysis.comparison is not None and analysis.comparison.split is Split.TEST:
        warnings.append(format_sentence(RANKED_ON_TEST))
    if analysis.no_better_than_class_prior is not None:
        warnings.append(class_prior_baseline_warning(analysis.no_better_than_class_prior))
    return tuple(warnings)


def _fact_lines(analysis: Analysis, comparison: Comparison, recommendation: Recommendation | None) -> list[str]:
    facts = (
        []
        if recommendation is None
        else [
            explain_configuration(recommendation.key.configuration, recommendation.estimate),
            format_sentence(f"{recommendation.verdict}: {verdict_text(recommendation, comparison)}"),
            format_sentence(_reason_with_upper_bound(recommendation)),
        ]
    )
    facts.append(format_sentence(row_verdicts_text(comparison)))
    facts += condition_facts(analysis)
    benefit = compute_normalization_benefit(comparison)
    if benefit is not None:
        facts.append(normalization_benefit_sentence(benefit))
    if analysis.selection is not None and not comparison.over:  # it is the row of lowest loss on clean images
        facts.append(selection_bias_sentence(analysis.selection, comparison, recommendation))
    if recommendation is None:
        return facts
    return [
        *facts,
        *map(
            format_sentence, recommendation_caveats(recommendation, significant_digits_of_compared_points(comparison))
        ),
    ]


def _reason_with_upper_bound(recommendation: Recommendation) -> str:
    """Why it is recommended; for a row that is not the best one, with the upper bound of what it gives away."""
    reason = recommendation_reason(recommendation)
    if recommendation.is_best:
        return reason
    upper = recommendation.loss_above_best_upper
    return f"{reason}; its loss is at most {upper:.4f} above the lowest (95 % confidence interval of this pair alone)"


def _detail_lines(analysis: Analysis, comparison: Comparison) -> list[str]:
    is_open = analysis.recommendation is None or analysis.recommendation.verdict is Verdict.CANNOT_TELL
    required = required_data_assumptions_text(comparison) if is_open else None
    return [
        comparison_method_text(comparison, analysis.looks),
        *([] if required is None else [required]),
        *_variance_sentences(analysis, comparison),
    ]


def _variance_sentences(analysis: Analysis, comparison: Comparison) -> list[str]:
    """The variance shares of the compared loss."""
    return [
        _variance_shares_text(shares)
        for shares in analysis.shares
        if (shares.split, shares.metric) == (comparison.split, "loss")
    ]


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
