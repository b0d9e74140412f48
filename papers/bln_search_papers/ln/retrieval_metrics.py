"""The names and meanings of the metrics of a retrieval, without torch."""

from __future__ import annotations

from enum import StrEnum

from bln_search.core.metric_description import MetricDescription

RETRIEVAL_DEPTHS = (1, 10)
"""Numbers of retrieved examples, k in recall at k."""


class RetrievalDirection(StrEnum):
    """Which embedding of an example finds which."""

    SECOND_BY_FIRST = "first_to_second"
    FIRST_BY_SECOND = "second_to_first"


_ARROWS = {RetrievalDirection.SECOND_BY_FIRST: "1 → 2", RetrievalDirection.FIRST_BY_SECOND: "2 → 1"}


def recall_name(depth: int, direction: RetrievalDirection) -> str:
    """`recall_at_5_first_to_second`."""
    return f"recall_at_{depth}_{direction}"


def mean_rank_name(direction: RetrievalDirection) -> str:
    """`mean_rank_first_to_second`."""
    return f"mean_rank_{direction}"


def _describe_retrieval(direction: RetrievalDirection) -> tuple[MetricDescription, ...]:
    found, finding = ("second", "first") if direction is RetrievalDirection.SECOND_BY_FIRST else ("first", "second")
    recalls = (
        MetricDescription(
            recall_name(depth, direction),
            f"R@{depth} {_ARROWS[direction]}",
            f"fraction of examples whose {found} embedding is among the {depth} most similar to the {finding} one",
            higher_is_better=True,
        )
        for depth in RETRIEVAL_DEPTHS
    )
    rank = MetricDescription(
        mean_rank_name(direction),
        f"mean rank {_ARROWS[direction]}",
        f"mean rank of the {found} embedding among those of all examples, by similarity to the {finding} one",
        higher_is_better=False,
    )
    return *recalls, rank


RETRIEVAL_METRICS = tuple(metric for direction in RetrievalDirection for metric in _describe_retrieval(direction))
"""Recall at k and mean rank in both directions."""
