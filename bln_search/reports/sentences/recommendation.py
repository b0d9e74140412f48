"""Text of a recommendation."""

from __future__ import annotations

from bln_search.ranking.selection.recommendation import (
    Confidence,
    CurrentRow,
    DeterministicAlternative,
    Recommendation,
)


def recommendation_text(recommendation: Recommendation, *, with_accuracy: bool = True) -> str:
    """The recommended row, why it is recommended, and its limits; a few sentences.

    Args:
        recommendation: The recommendation.
        with_accuracy: Whether predictions are correct or not, so that accuracies can be compared.
    """
    parts = (
        f"Use {_label(recommendation)}.",
        _recommendation_reason(recommendation),
        _improvement(recommendation.current),
        _batch_sizes(recommendation),
        _loss_above_best(recommendation),
        "One seed: this applies to that network only." if recommendation.confidence is Confidence.ONE_SEED else "",
        _deterministic_alternative(recommendation, with_accuracy=with_accuracy),
    )
    return " ".join(part for part in parts if part)


def _label(row: Recommendation | DeterministicAlternative) -> str:
    return " ".join(part for part in (row.arm, row.configuration, row.estimate) if part)


def _recommendation_reason(recommendation: Recommendation) -> str:
    current = recommendation.current
    if current is not None and current.is_recommended:
        if current.significantly_better:
            return "This is the current configuration of the network: it is near the lowest mean loss."
        return "This is the current configuration of the network: no other is significantly better (5 %, Holm)."
    if recommendation.is_best and recommendation.confidence is Confidence.SIGNIFICANT:
        others = recommendation.compared_rows - 1
        other_rows = "the other row" if others == 1 else f"all {others} other rows"
        return f"It has the lowest mean loss and is significantly better than {other_rows} (5 %, Holm)."
    if recommendation.is_best:
        return (
            f"It has the lowest mean loss, and the lowest in {recommendation.first_share:.0%} of the bootstrap draws "
            "of seeds and examples."
        )
    group = f"Of the {recommendation.near_best_rows} rows near the lowest mean loss"
    if recommendation.deterministic:
        return f"{group} it is the cheapest that is independent of the mini-batch."
    return f"{group} it is the cheapest (none of them is independent of the mini-batch)."


def _improvement(current: CurrentRow | None) -> str:
    if current is None or current.is_recommended:
        return ""
    name = " ".join(part for part in (current.configuration, current.estimate) if part)
    return (
        f"Its mean loss is {current.gain:.4f} lower than that of the current configuration of the network, {name} "
        f"(95 % confidence interval {current.low:.4f} to {current.high:.4f})."
    )


def _batch_sizes(recommendation: Recommendation) -> str:
    if recommendation.batch_sizes is None:
        return "It is independent of the mini-batch." if recommendation.is_best else ""
    sizes = ", ".join(str(size) for size in recommendation.batch_sizes)
    return f"It depends on the mini-batch: measured to be best, or near the best row, with mini-batches of {sizes}."


def _loss_above_best(recommendation: Recommendation) -> str:
    if recommendation.is_best:
        return ""
    return (
        f"Its mean loss is {recommendation.loss_above_best:.4f} above the lowest (upper end of the 95 % confidence "
        f"interval: {recommendation.loss_above_best_upper:.4f})."
    )


def _deterministic_alternative(recommendation: Recommendation, *, with_accuracy: bool) -> str:
    alternative = recommendation.alternative
    if alternative is None:
        return ""
    difference = alternative.loss - recommendation.loss
    accuracy = f", its accuracy {alternative.accuracy:.1%} instead of {recommendation.accuracy:.1%}"
    return (
        f"The best row that is independent of the mini-batch is {_label(alternative)}: its mean loss is "
        f"{abs(difference):.4f} {'higher' if difference >= 0 else 'lower'}{accuracy if with_accuracy else ''}."
    )
