"""Text of a recommendation, and of what qualifies it: the class-prior baseline, networks without normalization."""

from __future__ import annotations

from bln_search.core.names import format_count_with_noun
from bln_search.ranking.comparison import ComparedRow, Comparison
from bln_search.ranking.selection.baseline_check import ArmsNoBetterThanPrior
from bln_search.ranking.selection.eligible_rows import EligibilityBasis
from bln_search.ranking.selection.expected_loss import MAX_PROBABILITY_OF_HARM
from bln_search.ranking.selection.normalization_benefit import NormalizationBenefit
from bln_search.ranking.selection.recommendation import (
    CurrentConfigurationRow,
    DeterministicAlternative,
    Recommendation,
)
from bln_search.reports.formatting import format_signed
from bln_search.reports.sentences.significance import format_margin
from bln_search.specs.sections.point_labels import find_distinct_point_digits
from bln_search.specs.sections.space import DIGITS, format_encoded_point


def significant_digits_of_compared_points(comparison: Comparison | None) -> int:
    """Significant digits that distinguish the points of the compared rows; 4 without a comparison."""
    return DIGITS if comparison is None else find_distinct_point_digits(row.point for row in comparison.rows)


def recommendation_headline(recommendation: Recommendation, point_digits: int = DIGITS) -> str:
    """The recommended row."""
    return f"Recommended: {row_identity_label(recommendation, point_digits)}"


def recommendation_loss_and_dependence_text(recommendation: Recommendation, loss: str) -> str:
    """Its loss, what it gives away to the best row, and whether it depends on the mini-batch. loss: its name."""
    distance = "the lowest" if recommendation.is_best else f"{recommendation.loss_above_best:.4f} above the best row"
    dependence = "independent of" if recommendation.deterministic else "depends on"
    return f"{loss} {recommendation.loss:.4f}, {distance}, {dependence} the mini-batch"


def row_identity_label(row: Recommendation | DeterministicAlternative | ComparedRow, point_digits: int = DIGITS) -> str:
    """Arm, parameters, configuration and estimate: `bln TTTT (frozen)`."""
    estimate = f"({row.estimate})" if row.estimate else ""
    point = format_encoded_point(row.point, point_digits)
    return " ".join(part for part in (row.arm, point, row.configuration, estimate) if part)


def recommendation_reason(recommendation: Recommendation) -> str:
    """Why the row is recommended."""
    margin, current = format_margin(recommendation.margin), recommendation.current
    if current is not None and current.is_recommended:
        reason = "no row predicts better than the class frequencies"
        if recommendation.basis is not EligibilityBasis.NONE:
            reason = _reason_to_keep(current, recommendation.margin)
        return f"this is the current configuration of the network: {reason}"
    if recommendation.is_best:
        return f"it has the lowest mean loss (P(best) = {recommendation.first_share:.0%})"
    group = f"of the {recommendation.candidate_rows} rows whose expected loss is at most {margin} above the lowest"
    if recommendation.deterministic:
        return f"{group} it is the cheapest that is independent of the mini-batch"
    return f"{group} it is the cheapest (none of them is independent of the mini-batch)"


def _reason_to_keep(current: CurrentConfigurationRow, margin: float) -> str:
    if current.expected_above_best <= margin:
        return f"its expected loss on other examples is at most {format_margin(margin)} above the lowest"
    risk = f"a probability above {MAX_PROBABILITY_OF_HARM:.0%}"
    return f"the row of lowest loss is worse by more than {format_margin(margin)} with {risk}"


def recommendation_caveats(recommendation: Recommendation, point_digits: int = DIGITS) -> list[str]:
    """What a user must know besides: the current configuration, rows left out, batch sizes, the alternative."""
    where = "" if recommendation.ranking_loss is None else " under any condition"
    has_warning = recommendation.basis is EligibilityBasis.NONE and not where  # `class_prior_baseline_warning`
    facts = (
        _current_configuration_text(recommendation.current),
        *([] if has_warning else class_frequencies_facts(recommendation.excluded_rows, recommendation.basis, where)),
        _batch_sizes_text(recommendation),
        _deterministic_alternative_text(recommendation, point_digits),
    )
    return [fact for fact in facts if fact is not None]


def loss_excess_text_unless_best(recommendation: Recommendation) -> str | None:
    """The loss that it gives away; None for the best row."""
    if recommendation.is_best:
        return None
    return (
        f"its mean loss is {recommendation.loss_above_best:.4f} above the lowest (upper end of the 95 % confidence "
        f"interval of this pair alone: {recommendation.loss_above_best_upper:.4f})"
    )


def _current_configuration_text(current: CurrentConfigurationRow | None) -> str | None:
    if current is None or current.is_recommended:
        return None
    name = " ".join(
        part for part in (current.configuration, f"({current.estimate})" if current.estimate else "") if part
    )
    above = current.above_best
    return (
        f"the loss of the current configuration of the network, {name}, is {above.mean:.4f} above the lowest "
        f"(95 % confidence interval {above.low:.4f} to {above.high:.4f})"
    )


def class_frequencies_facts(excluded_rows: int, basis: EligibilityBasis, where: str = "") -> list[str]:
    """Which rows may not be recommended, and that no row has a lower loss than the class frequencies.

    Args:
        excluded_rows: Number of rows that may not be recommended.
        basis: Why the others may be.
        where: In which conditions.
    """
    if basis is EligibilityBasis.NONE:
        return [f"no row predicts better than the class frequencies{where}: the network may not have learned anything"]
    facts = []
    if basis is EligibilityBasis.ACCURACY:
        facts.append(
            f"no row has a lower loss than predicting the class frequencies{where}, so this one was selected from "
            "those with a higher accuracy"
        )
    if excluded_rows:
        rows = format_count_with_noun(excluded_rows, "row predicts", "rows predict")
        facts.append(f"{rows} no better than the class frequencies{where}, and may not be recommended")
    return facts


def _batch_sizes_text(recommendation: Recommendation) -> str | None:
    if recommendation.batch_sizes is None:
        return None
    sizes = ", ".join(str(size) for size in recommendation.batch_sizes)
    return (
        "it depends on the mini-batch: measured to be best, or at most a tenth above the best row, with mini-batches "
        f"of {sizes}"
    )


def _deterministic_alternative_text(recommendation: Recommendation, point_digits: int) -> str | None:
    alternative = recommendation.alternative
    if alternative is None:
        return None
    difference = alternative.loss - recommendation.loss
    accuracy = ""
    if alternative.accuracy is not None and recommendation.accuracy is not None:
        accuracies = (f"{alternative.accuracy:.1%}", f"{recommendation.accuracy:.1%}")
        accuracy = ", its accuracy {} instead of {}".format(*accuracies) if accuracies[0] != accuracies[1] else ""
    return (
        f"the best row that is independent of the mini-batch is {row_identity_label(alternative, point_digits)}: its "
        f"mean loss is {abs(difference):.4f} {'higher' if difference >= 0 else 'lower'}{accuracy}"
    )


def class_prior_baseline_warning(check: ArmsNoBetterThanPrior) -> str:
    """Which arms have no row better than the baseline, and by which figures."""
    rows = "No row" if check.all_arms else f"No row of {' or '.join(check.arms)}"
    return (
        f"{rows} is better than the class-prior baseline: the lowest {check.split} loss is {check.loss:.4f} (accuracy "
        f"{check.accuracy:.1%}), that of always predicting the class frequencies {check.baseline.loss:.4f} "
        f"({check.baseline.accuracy:.1%}). The network may not have learned anything."
    )


def normalization_benefit_sentence(benefit: NormalizationBenefit) -> str:
    """Whether normalization lowers the loss, with difference, interval and p."""
    difference = benefit.difference
    statement = f"No significant difference between networks with and without normalization in {benefit.loss_name}"
    if benefit.is_significant:
        statement = f"Normalization {'lowers' if difference.mean > 0 else 'raises'} the {benefit.loss_name}"
    chosen = f", the best of {benefit.candidates} rows" if benefit.candidates > 1 else ""
    return (
        f"{statement}: {_format_row_loss(benefit.plain)} without, {_format_row_loss(benefit.normalized)} "
        f"with{chosen}; difference "
        f"{format_signed(difference.mean)}, 95 % confidence interval {format_signed(difference.low)} to "
        f"{format_signed(difference.high)}, "
        f"p = {difference.p:.2g}, {difference.adjusted:.2g} after correction for all pairs."
    )


def _format_row_loss(row: ComparedRow) -> str:
    return f"{row.loss:.4f} ({row_identity_label(row)})"
