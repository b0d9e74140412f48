"""Text about what is known of the rows beside the best one."""

from __future__ import annotations

from bln_search.core.names import format_count_with_noun
from bln_search.ranking.comparison import (
    MAX_REQUIRED_SEEDS,
    Comparison,
    Question,
    RequiredData,
    RowVerdict,
    Verdict,
)
from bln_search.ranking.selection.recommendation import Recommendation


def format_margin(margin: float) -> str:
    """A margin with two significant digits."""
    return f"{margin:.2g}"


def verdict_text(recommendation: Recommendation) -> str:
    """What is known about the recommended row (95 %)."""
    others = recommendation.compared_rows - 1
    if recommendation.verdict is Verdict.BETTER:
        return f"it is significantly better than {'the other row' if others == 1 else f'all {others} other rows'}"
    if recommendation.verdict is Verdict.PRACTICALLY_EQUAL:
        return f"no row is better by more than {format_margin(recommendation.margin)} (95 %)"
    return f"a row may be better by more than {format_margin(recommendation.margin)}"


def row_verdicts_text(comparison: Comparison) -> str:
    """How many rows are practically equal to the best one, worse, and neither; what would decide."""
    counts = {verdict: sum(row.verdict is verdict for row in comparison.rows) for verdict in RowVerdict}
    margin = format_margin(comparison.margin)
    texts = {
        RowVerdict.PRACTICALLY_EQUAL: f"practically equal to the best one (within {margin})",
        RowVerdict.WORSE: "significantly worse",
        RowVerdict.CANNOT_TELL: "neither for certain",
    }
    parts = [
        f"{format_count_with_noun(counts[verdict], 'row is', 'rows are')} {text}"
        for verdict, text in texts.items()
        if counts[verdict]
    ]
    text = ", ".join(parts) or "one row was compared"
    if comparison.not_compared:
        text += f"; {comparison.not_compared} further rows were not compared"
    required = required_data_text(comparison)
    return text if required is None else f"{text}; {required}"


def required_data_text(comparison: Comparison) -> str | None:
    """How much data would decide; None where it is decided."""
    required = comparison.required
    if required is None:
        return None
    unit = "seeds" if comparison.question is Question.NEW_TRAININGS else "networks"
    seeds = _seeds_text(comparison, required)
    examples = "" if required.examples is None else f"about {required.examples:,} examples instead of "
    examples += f"{comparison.examples:,}" if examples else ""
    enough = " or ".join(part for part in (seeds, examples) if part)
    have = f"{format_count_with_noun(comparison.seeds, unit[:-1], unit)}, {comparison.examples:,} examples"
    if enough:
        return f"{enough} would decide"
    if required.limited_by_examples:
        return f"more seeds alone would not decide ({have})"
    return f"far more than {have} would be needed to decide"


def _seeds_text(comparison: Comparison, required: RequiredData) -> str:
    if required.seeds is None:
        return ""
    return f"about {required.seeds} seeds instead of {comparison.seeds}"


def comparison_method_text(comparison: Comparison) -> str:
    """How rows were compared, and what the answer extends to."""
    examples = f"{comparison.examples} examples"
    if comparison.sampled_from is not None:
        examples += f", drawn at random from {comparison.sampled_from}"
    networks = format_count_with_noun(comparison.seeds, "network", "networks")
    scope = {
        Question.THESE_NETWORKS: f"for {networks} on other examples ({examples})",
        Question.NEW_TRAININGS: f"for new trainings ({comparison.seeds} seeds, {examples})",
    }[comparison.question]
    return (
        f"The answer is {scope}: differences of the {comparison.split} loss, family-wise error rate "
        f"{100 * comparison.level:.2g} %, margin {format_margin(comparison.margin)}."
    )


def required_data_assumptions_text(comparison: Comparison) -> str | None:
    """Assumptions of the required data; None where it is not given."""
    if comparison.required is None:
        return None
    return (
        "Required data: 80 % of studies of this size are decided if the observed means and variances are the true "
        f"ones; numbers of seeds above {MAX_REQUIRED_SEEDS} are not named."
    )
