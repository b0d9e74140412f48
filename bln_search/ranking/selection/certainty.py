"""How certain it is that the first row of a comparison is the best one, on one scale of three steps."""

from __future__ import annotations

from enum import StrEnum

from bln_search.ranking.comparison import Comparison
from bln_search.ranking.selection.recommendation import Confidence, Recommendation

LIKELY_SHARE = 0.8
"""Share of bootstrap draws with the lowest mean loss from which a row is likely the best one."""


class Certainty(StrEnum):
    """How certain it is that the row of lowest mean loss is the best one.

    Members:
        CLEAR: It differs significantly from every other row (5 %, corrected).
        LIKELY: It has the lowest mean loss in at least 80 % of the bootstrap draws of seeds and examples.
        UNDECIDED: Neither, or there is one seed.
    """

    CLEAR = "clear"
    LIKELY = "likely"
    UNDECIDED = "cannot tell"


def assess_certainty_of_best_row(recommendation: Recommendation, comparison: Comparison) -> Certainty:
    """How certain it is that the first row of the comparison is the best one."""
    if recommendation.confidence is Confidence.SIGNIFICANT:
        return Certainty.CLEAR
    if recommendation.confidence is Confidence.ONE_SEED or comparison.rows[0].first_share < LIKELY_SHARE:
        return Certainty.UNDECIDED
    return Certainty.LIKELY


def find_num_additional_seeds(comparison: Comparison) -> int | None:
    """Number of further seeds that would separate the first two rows; None where it is unknown or too large to name."""
    required = comparison.required_seeds
    if required is None or required.seeds is None or required.seeds <= comparison.seeds:
        return None
    return required.seeds - comparison.seeds
