"""Conclusions of the MBN paper, and whether the small studies show them; `bench.documents.mbn_page` writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.documents.convnets_page import FAILS, HOLDS, UNKNOWN, verdict
from bench.documents.mbn_results import STEPS, TABLE1, StudyRow, size_point, test_errors
from bln_search.ranking.statistics.intervals import (
    adjust_p_values_by_holm,
    mean_with_t_interval,
    paired_t_test_p_value_of_differences,
)

MARGIN = 1.0
"""Points of test error within which two rows count as equal."""


@dataclass(frozen=True)
class Claim:
    """A conclusion: the first row has the lower error, or the same as the second.

    Attributes:
        text: what the paper concludes.
        first, second: the compared rows.
        is_equality: whether it claims that both are equal.
    """

    text: str
    first: StudyRow
    second: StudyRow
    is_equality: bool = False


def arms_claim(text: str, first: str, second: str, *, is_equality: bool = False) -> Claim:
    """Return a claim about two arms."""
    return Claim(text, StudyRow(first), StudyRow(second), is_equality)


TABLE1_CLAIMS = (
    arms_claim("Table 1: MBN better than BN", "mbn-2", "bn-1"),
    arms_claim("Table 1: MBN better than BRN", "mbn-2", "brn-2"),
    arms_claim("Table 1: BRN better than BN", "brn-2", "bn-1"),
    arms_claim("Figure 1: MBN with one forward pass better than BN", "mbn-1", "bn-1"),
    arms_claim("Figure 1: double forward better for MBN", "mbn-2", "mbn-1"),
    arms_claim("Figure 1: double forward better for BRN", "brn-2", "brn-1"),
    arms_claim("Figure 1: double forward makes no difference for BN", "bn-2", "bn-1", is_equality=True),
    arms_claim("Eq. 6: better with the variance between mini-batches than without", "mbn-2", "mbn-no-between"),
)
_STEPS_ROW = StudyRow("mbn", STEPS)
LAMBDA_CLAIMS = tuple(
    Claim(f"Table 5: rising λ better than constant {value}", _STEPS_ROW, StudyRow("mbn", f"lambda={value}"))
    for value in ("0", "0.1", "0.5", "0.9")
)
MEMORY_CLAIMS = tuple(
    Claim(
        f"Table 6: k = {first} as good as k = {second}",
        StudyRow("mbn", f"memory={first}"),
        StudyRow("mbn", f"memory={second}"),
        is_equality=True,
    )
    for first, second in ((2, 20), (5, 20), (10, 20), (20, 40))
)


def size_claims(study: str) -> tuple[Claim, ...]:
    """Return the claims of Table 4 for the mini-batch sizes of a study."""
    points = {size: size_point(study, size) for size in (8, 16, 32)}
    return tuple(
        Claim(f"Table 4: MBN better than BN, mini-batches of {size}", StudyRow("mbn", point), StudyRow("bn", point))
        for size, point in points.items()
        if point
    )


def claims_of(study: str) -> tuple[Claim, ...]:
    """Return the claims that a study can show."""
    if study in (TABLE1, "mbn_double_forward_small"):
        return TABLE1_CLAIMS
    if "batch_size" in study:
        return size_claims(study)
    return LAMBDA_CLAIMS if "lambda" in study else MEMORY_CLAIMS


def equality_verdict(differences: Sequence[float]) -> str:
    """Whether two rows are equal: the 95 % interval of the difference lies within, or outside of, ± MARGIN."""
    interval = mean_with_t_interval(differences)
    assert interval.half is not None
    if abs(interval.mean) + interval.half <= MARGIN:
        return HOLDS
    return FAILS if abs(interval.mean) - interval.half > MARGIN else UNKNOWN


def study_lines(study: str) -> list[str]:
    """Return the rows of a study in the table of conclusions; p is corrected over the claims of the study."""
    measured = []
    for claim in claims_of(study):
        first, second = test_errors(study, claim.first), test_errors(study, claim.second)
        if first is not None and second is not None:
            measured.append((claim, [a - b for a, b in zip(first, second, strict=True)]))
    if not measured:
        return [f"| not measured yet | `{study}` | | | |"]
    adjusted = adjust_p_values_by_holm(
        [paired_t_test_p_value_of_differences(differences) or 1.0 for _, differences in measured]
    )
    lines = []
    for (claim, differences), p in zip(measured, adjusted, strict=True):
        result = equality_verdict(differences) if claim.is_equality else verdict(differences, p)
        interval = mean_with_t_interval(differences)
        lines.append(
            f"| {claim.text} | `{study}` | {interval.mean:+.2f} ± {interval.half or 0:.2f} | {p:.2g} | {result} |"
        )
    return lines
