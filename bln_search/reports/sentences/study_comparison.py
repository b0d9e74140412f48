"""The verdict of a comparison of studies, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.core.records import RowKey
from bln_search.ranking.selection.cross_study import BestRowDifference, SharedRow
from bln_search.reports.formatting import format_signed_interval
from bln_search.specs.sections.point_labels import find_distinct_point_digits
from bln_search.specs.sections.space import DIGITS, format_encoded_point


def best_rows_difference_sentence(
    first: str, other: str, split: str, best: BestRowDifference, *, point_digits: int = DIGITS
) -> str:
    """Whether the best row of a study is better than that of the first one.

    Args:
        first: Name of the first study.
        other: Name of the other study.
        split: Split of the losses.
        best: The difference of the best rows.
        point_digits: Significant digits of the points; more are used where these two need them.
    """
    difference = best.difference
    digits = max(point_digits, find_distinct_point_digits((best.best.point, best.first.point)))
    labels = [_row_key_label(key, digits) for key in (best.best, best.first)]
    rows = f"{labels[0]} against {labels[1]}: {format_signed_interval(difference)}"
    if difference.half is None:
        return f"With one seed no test is possible. The lowest {split} losses of {other} and {first}: {rows}."
    if not difference.excludes_zero:
        return f"The lowest {split} losses of {other} and {first} are not significantly different ({rows})."
    direction = "higher" if difference.mean > 0 else "lower"
    return f"The lowest {split} loss of {other} is significantly {direction} than that of {first} ({rows})."


def shared_rows_sentence(rows: Sequence[SharedRow], index: int, *, has_more: bool = False) -> str | None:
    """Of how many shared rows the loss is lower and higher than in the first study; None without such rows.

    Args:
        rows: The rows.
        index: Position of the study among the compared ones.
        has_more: Whether the studies share more rows than these, which are the first ones.
    """
    differences = [difference for row in rows if (difference := row.differences[index]) is not None]
    if not differences:
        return None
    lower, higher = ([item for item in differences if sign * item.mean > 0] for sign in (-1, 1))
    significant = [sum(item.excludes_zero for item in group) for group in (lower, higher)]
    counts = f"{len(lower)} lower ({significant[0]} significantly) and {len(higher)} higher ({significant[1]})"
    subject = f"The first {len(differences):,} rows" if has_more else "Rows"
    return f"{subject} that both have, each tested by itself: {counts}."


def _row_key_label(key: RowKey, point_digits: int) -> str:
    estimate = f"({key.estimate})" if key.estimate else ""
    point = format_encoded_point(key.point, point_digits)
    parts = (key.arm, point, str(key.configuration), estimate, f"batch {key.batch_size}")
    return " ".join(part for part in parts if part)
