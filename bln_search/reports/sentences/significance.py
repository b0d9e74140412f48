"""Text about what is known of the rows beside the best one."""

from __future__ import annotations

from collections.abc import Sequence

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

PROVISIONAL = "Provisional: the study is not complete, so the verdicts may change."


def format_margin(margin: float) -> str:
    """A margin with two significant digits."""
    return f"{margin:.2g}"


def verdict_text(recommendation: Recommendation, comparison: Comparison | None = None) -> str:
    """What is known about the recommended row (95 %); where nothing is, how much data would decide.

    Args:
        recommendation: The recommendation.
        comparison: The comparison that it was chosen in; None leaves out the data.
    """
    text = choice_text(recommendation.verdict, recommendation.compared_rows - 1, recommendation.margin)
    is_open = comparison is not None and recommendation.verdict is Verdict.CANNOT_TELL
    required = required_data_text(comparison) if comparison is not None and is_open else None
    return text if required is None else f"{text}; {required}"


def choice_text(verdict: Verdict, others: int, margin: float) -> str:
    """What is known about the choice of a row among `others` other rows (95 %)."""
    if verdict is Verdict.BETTER:
        return f"it is significantly better than {'the other row' if others == 1 else f'all {others} other rows'}"
    if verdict is Verdict.PRACTICALLY_EQUAL:
        return f"no row is better by more than {format_margin(margin)} (95 %)"
    return f"another row may be better by more than {format_margin(margin)}"


def row_verdicts_text(comparison: Comparison) -> str:
    """How many rows are practically equal to the best one, worse, and neither."""
    over = f"by the {comparison.loss_name}, " if comparison.over else ""
    text = over + verdict_counts_text([row.verdict for row in comparison.rows], comparison.margin)
    if comparison.not_compared:
        text += f"; {comparison.not_compared} further rows were not compared"
    return text


def verdict_counts_text(verdicts: Sequence[RowVerdict], margin: float) -> str:
    """How many rows are practically equal to the best one, worse, and neither."""
    texts = {
        RowVerdict.PRACTICALLY_EQUAL: f"practically equal to the best one (within {format_margin(margin)})",
        RowVerdict.WORSE: "significantly worse",
    }
    parts = [
        f"{format_count_with_noun(verdicts.count(verdict), 'row is', 'rows are')} {text}"
        for verdict, text in texts.items()
        if verdict in verdicts
    ]
    num_open = verdicts.count(RowVerdict.CANNOT_TELL)
    parts += [f"{format_count_with_noun(num_open, 'row', 'rows')}: cannot tell"] if num_open else []
    return ", ".join(parts) or "one row was compared"


def short_verdict_text(verdict: Verdict, required: RequiredData | None) -> str:
    """The verdict on the recommended row in a list: where nothing is known, what would decide if anything can."""
    if verdict is not Verdict.CANNOT_TELL or required is None:
        return verdict
    if required.seeds is not None:
        return f"about {required.seeds} seeds would decide"
    if required.examples is not None:
        return f"about {required.examples:,} examples would decide"
    return "more seeds alone would not decide" if required.limited_by_examples else verdict


def required_data_text(comparison: Comparison) -> str | None:
    """How much data would decide; None where it is decided."""
    if comparison.required is None:
        return None
    unit = "seed" if comparison.question is Question.NEW_TRAININGS else "network"
    return deciding_data_text(comparison.required, comparison.seeds, comparison.examples, unit)


def deciding_data_text(required: RequiredData, seeds: int, examples: int, unit: str = "seed") -> str:
    """How much data would decide, instead of so many seeds (or what `unit` calls them) and examples; one is none."""
    enough = [
        f"about {needed:,} {name} instead of {count:,}"
        for needed, name, count in ((required.seeds, "seeds", seeds), (required.examples, "examples", examples))
        if needed is not None
    ]
    have = format_count_with_noun(seeds, unit, f"{unit}s") + (f", {examples:,} examples" if examples > 1 else "")
    if enough:
        return f"{' or '.join(enough)} would decide"
    if required.limited_by_examples:
        return f"more seeds alone would not decide ({have})"
    return f"far more than {have} would be needed to decide"


def comparison_method_text(comparison: Comparison, looks: Sequence[int] = ()) -> str:
    """How rows were compared, and what the answer extends to. looks: see `Analysis`."""
    examples = f"{comparison.examples} examples"
    if comparison.sampled_from is not None:
        examples += f", drawn at random from {comparison.sampled_from}"
    networks = format_count_with_noun(comparison.seeds, "network", "networks")
    scope = {
        Question.THESE_NETWORKS: f"for {networks} on other examples ({examples})",
        Question.NEW_TRAININGS: f"for new trainings ({comparison.seeds} seeds, {examples})",
    }[comparison.question]
    look = f" (look {len(looks)}, after {_join_with_and(looks)} seeds)" if len(looks) > 1 else ""
    return (
        f"The answer is {scope}: differences of the {comparison.loss_name}, family-wise error rate "
        f"{100 * comparison.level:.2g} %{look}, margin {format_margin(comparison.margin)}."
    )


def _join_with_and(numbers: Sequence[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} and {last}"


def required_data_assumptions_text(comparison: Comparison) -> str | None:
    """Assumptions of the required data; None where it is not given."""
    if comparison.required is None:
        return None
    return (
        "Required data: 80 % of studies of this size are decided if the observed means and variances are the true "
        f"ones; numbers of seeds above {MAX_REQUIRED_SEEDS} are not named."
    )
