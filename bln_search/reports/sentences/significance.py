"""Text about significant differences between the first rows."""

from __future__ import annotations

from bln_search.core.names import format_count_with_noun
from bln_search.ranking.comparison import MAX_REQUIRED_SEEDS, Comparison


def first_rows_significance_text(comparison: Comparison) -> str:
    """How far the first rows are separated, and how many seeds would separate the first two.

    Intervals are those of single pairs, significance is corrected for all pairs: where an interval excludes 0 although
    the pair does not differ significantly, the text says so.
    """
    size = len(comparison.top_group)
    text = (
        _first_two_separation_text(comparison)
        if size == 1
        else f"{_no_separation_text(comparison)} ({seeds_and_required_seeds_text(comparison)})"
    )
    parts = [text]
    if comparison.num_inconclusive_rows_below_top_group:
        parts.append(
            f"{comparison.num_inconclusive_rows_below_top_group} rows further down vary too much for a significant "
            "difference from the first"
        )
    if comparison.not_compared:
        parts.append(f"{comparison.not_compared} further rows were not compared")
    return "; ".join(parts)


def _first_two_separation_text(comparison: Comparison) -> str:
    if len(comparison.rows) == 1:
        return "one row was compared"
    pair = comparison.find_pair(0, 1)
    p = "" if pair is None else f"p = {pair.loss.adjusted:.2g}, "
    comparisons = format_count_with_noun(len(comparison.pairs), "comparison", "comparisons")
    return f"the first row is significantly better than the second ({p}corrected for {comparisons})"


def _no_separation_text(comparison: Comparison) -> str:
    size = len(comparison.top_group)
    pairs = [pair for pair in comparison.pairs if pair.second < size]
    excluding = [pair for pair in pairs if pair.loss.low > 0 or pair.loss.high < 0]
    from_first = sum(pair.first == 0 for pair in excluding)
    others, of_them = ("the second", "") if size == 2 else (f"the next {size - 1}", f" for {from_first} of them")
    has_significant_pair = any(pair.is_significant for pair in pairs)
    if not excluding and not has_significant_pair:
        return f"no significant difference between {size} rows"
    if has_significant_pair or not from_first:
        text = f"the first row does not differ significantly from {others}"
    else:
        text = f"no pair of the first {size} rows differs significantly"
    if not from_first:
        return text
    return (
        f"{text} after correction for {len(comparison.pairs)} comparisons; the 95 % interval of the difference to the "
        f"first row, taken alone, excludes 0{of_them}"
    )


def seeds_and_required_seeds_text(comparison: Comparison) -> str:
    """The number of seeds, and the number that would separate the first two rows."""
    if comparison.seeds == 1:
        return "1 seed: without the variance between seeds the required number of seeds is unknown"
    text = f"{comparison.seeds} seeds"
    required = comparison.required_seeds
    if required is None or comparison.seeds >= MAX_REQUIRED_SEEDS:
        return text
    if required.limited_by_examples:
        return f"{text}; on {comparison.examples} examples more seeds alone would not separate the first two"
    if required.seeds is None:
        return f"{text}; more than {MAX_REQUIRED_SEEDS} would be needed to separate the first two"
    return f"{text}; about {required.seeds} would separate the first two"


def required_seeds_assumptions_text(comparison: Comparison) -> str | None:
    """Assumptions of the required number of seeds; None where it is not given."""
    required = comparison.required_seeds
    if required is None:
        return None
    return (
        f"Required seeds: for a power of {required.power:.0%} at level {required.level:.2g} (5 % corrected for the "
        "pairs without a significant difference), if the observed difference of the first two rows and its variances "
        "are the true ones."
    )


def comparison_method_text(comparison: Comparison) -> str:
    """How rows were compared."""
    scope = "examples of one network" if comparison.seeds == 1 else f"{comparison.seeds} seeds and examples"
    examples = f"{comparison.examples} examples"
    if comparison.sampled_from is not None:
        examples += f", drawn at random from {comparison.sampled_from}"
    return (
        f"Significance: {comparison.split} loss over {scope} ({examples}), level 5 %, "
        f"corrected for {len(comparison.pairs)} pairs. No significant difference does not show that rows are equal."
    )
