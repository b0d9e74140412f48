"""Text of an analysis: recommendation, significance, variance shares, selection bias."""

from __future__ import annotations

from bln_search.core.enums import Split
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import Comparison
from bln_search.ranking.selection.selected_row import SelectedRowPerformance
from bln_search.ranking.statistics.eta_squared import RESIDUAL, SWITCH_INTERACTIONS
from bln_search.ranking.study_effects import VarianceShares
from bln_search.reports.sentences.baseline_check import baseline_warning
from bln_search.reports.sentences.leaderboard import RANKED_ON_TEST, sentence
from bln_search.reports.sentences.recommendation import recommendation_text
from bln_search.specs.space import format_point_json

_MIN_WRITTEN_SHARE = 0.005
_MIN_WRITTEN_BIAS = 0.00005
FACTOR_NAMES = {SWITCH_INTERACTIONS: "switch interactions", RESIDUAL: "residual"}
"""Standard terms for factors whose stored names differ from them."""


def analysis_sentences(analysis: Analysis, *, standalone: bool = False, with_accuracy: bool = True) -> list[str]:
    """The analysis as text, one topic per item.

    Args:
        analysis: The analysis.
        standalone: Whether no table next to the text says on which split rows are ranked.
        with_accuracy: Whether predictions are correct or not, so that accuracies can be compared.
    """
    sentences = _recommendation(analysis, with_accuracy=with_accuracy)
    comparison = analysis.comparison
    if standalone and comparison is not None and comparison.split is Split.TEST:
        sentences.append(sentence(RANKED_ON_TEST))
    if comparison is None:
        return [*sentences, f"Rows are not compared: {analysis.reason}."] if analysis.reason else sentences
    sentences.append(_significance(comparison))
    if comparison.friedman is not None:
        sentences.append(
            f"Friedman test over {comparison.seeds} seeds, for these {comparison.examples} examples only: "
            f"chi² = {comparison.friedman.statistic:.1f}, p = {comparison.friedman.p:.2g}; mean ranks that differ by "
            f"more than {comparison.friedman.critical_difference:.2f} are significantly different (Nemenyi, 5 %)."
        )
    sentences += [
        _variance_shares(shares)
        for shares in analysis.shares
        if (shares.split, shares.metric) == (comparison.split, "loss")
    ]
    if analysis.selection is not None:
        sentences.append(selection_sentence(analysis.selection, comparison))
    return sentences


def _recommendation(analysis: Analysis, *, with_accuracy: bool) -> list[str]:
    """The recommendation; where no arm is better than the class-prior baseline, that warning comes first."""
    recommendation = analysis.recommendation
    sentences = [] if recommendation is None else [recommendation_text(recommendation, with_accuracy=with_accuracy)]
    check = analysis.no_better_than_class_prior
    if check is None:
        return sentences
    return [baseline_warning(check), *sentences] if check.all_arms else [*sentences, baseline_warning(check)]


def _significance(comparison: Comparison) -> str:
    size = len(comparison.top_group)
    group_text = (
        "The first row is significantly better than the next"
        if size == 1
        else f"No significant difference among the first {size} rows"
    )
    if comparison.inconclusive_below:
        group_text += (
            f" ({comparison.inconclusive_below} further down vary too much for a significant difference from the first)"
        )
    scope = "over examples of one network" if comparison.seeds == 1 else f"over {comparison.seeds} seeds and examples"
    not_compared = f"; {comparison.not_compared} further rows were not compared" if comparison.not_compared else ""
    text = (
        f"{group_text}: rows that share a letter are not significantly different in {comparison.split} loss {scope} "
        f"({comparison.examples} examples, 5 %, Holm over {len(comparison.pairs)} pairs){not_compared}."
    )
    if any(pair.is_significant for pair in comparison.pairs):
        return text
    data = "one network" if comparison.seeds == 1 else f"{comparison.seeds} seeds"
    return f"{text} With {data} no pair differs significantly; this does not show that the rows are equal."


def _variance_shares(shares: VarianceShares) -> str:
    point = f" {format_point_json(shares.point)}" if shares.point else ""
    parts = ", ".join(
        f"{FACTOR_NAMES.get(name, name)} {share:.0%}" for name, share in shares.shares if share >= _MIN_WRITTEN_SHARE
    )
    return f"Shares of the variance of the {shares.split} loss of {shares.arm}{point}: {parts}."


def selection_sentence(performance: SelectedRowPerformance, comparison: Comparison) -> str:
    """Loss of the selected row, its selection bias, and its loss on the other split."""
    qualifier = "at least" if comparison.not_compared else "about"
    bias = (
        f", optimistic by {qualifier} {comparison.optimism:.4f} (selection bias),"
        if comparison.optimism >= _MIN_WRITTEN_BIAS
        else ""
    )
    return (
        f"The row of lowest {performance.chosen_on} loss, {comparison.rows[0].key.label}, has {performance.loss:.4f} "
        f"there{bias} and {performance.other_loss:.4f} on {performance.reported_on}: rank {performance.other_rank} of "
        f"{performance.ranked_rows}, {performance.regret:.4f} above the best."
    )
