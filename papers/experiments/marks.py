"""Claims of a paper, the measured differences that test them, and the rule of a mark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from bench.documents.functions import holm
from bln_search.ranking.statistics.intervals import ALPHA, ConfidenceInterval, mean_with_t_interval


class Mark(StrEnum):
    """Whether a claim holds in the studies of this project."""

    HOLDS = "holds"
    FAILS = "does not hold"
    EQUAL = "practically equal"
    UNKNOWN = "cannot tell"
    MISSING = "not measured"


DECIDED = (Mark.HOLDS, Mark.FAILS, Mark.EQUAL)
"""Marks of claims that the studies decide."""

_WORST_FIRST = (Mark.FAILS, Mark.UNKNOWN, Mark.EQUAL, Mark.HOLDS)
"""Order in which the mark of a comparison is that of its claim."""


class Expected(StrEnum):
    """What a claim says about a mean difference."""

    NEGATIVE = "< 0"
    POSITIVE = "> 0"
    SMALL = "small"


@dataclass(frozen=True)
class Comparison:
    """One measured difference that a claim predicts.

    Attributes:
        study: File of bench/results: that of a study, or its learning curves.
        setting: What differs, and where.
        differences: One value for each seed; empty if the study is not measured.
        expected: The prediction.
        margin: Absolute value up to which differences are small, for `SMALL`, or practically equal; None for no margin.
    """

    study: str
    setting: str
    differences: tuple[float, ...]
    expected: Expected = Expected.NEGATIVE
    margin: float | None = None

    @property
    def family(self) -> str:
        """The study, over whose comparisons in a paper p values are corrected."""
        return self.study.removesuffix("_curves")


@dataclass(frozen=True)
class Claim:
    """A claim of a paper.

    Attributes:
        place: Section, equation or table of the paper.
        text: The claim in our words.
        evidence: Markdown links to the page or the tests.
        comparisons: Differences that test it.
        shown: The mark of a claim that tests or a derivation decide, not a study.
    """

    place: str
    text: str
    evidence: str = ""
    comparisons: tuple[Comparison, ...] = ()
    shown: Mark = Mark.MISSING


def adjusted_p_values(claims: Iterable[Claim], *, with_small: bool = False) -> dict[Comparison, float]:
    """Return p of the paired t test of each measured comparison, by Holm's correction over those of a study.

    Comparisons with the same differences, in one direction or the other, are one hypothesis.

    Args:
        claims: All claims of a paper.
        with_small: Whether predictions of a small difference, which no p value decides, belong to the correction.
    """
    families: dict[str, dict[tuple[float, ...], list[Comparison]]] = {}
    for comparison in dict.fromkeys(comparison for claim in claims for comparison in claim.comparisons):
        if comparison.differences and (with_small or comparison.expected is not Expected.SMALL):
            hypothesis = max(comparison.differences, tuple(-value for value in comparison.differences))
            families.setdefault(comparison.family, {}).setdefault(hypothesis, []).append(comparison)
    return {
        comparison: p
        for family in families.values()
        for same, p in zip(family.values(), holm(list(family)), strict=True)
        for comparison in same
    }


def mark_comparison(comparison: Comparison, adjusted: Mapping[Comparison, float]) -> Mark:
    """Return whether a measured difference is the predicted one."""
    if not comparison.differences:
        return Mark.MISSING
    interval = mean_with_t_interval(comparison.differences)
    if comparison.expected is Expected.SMALL:
        return _mark_small(interval, comparison.margin)
    if adjusted[comparison] > ALPHA:
        return Mark.EQUAL if _is_within(interval, comparison.margin) else Mark.UNKNOWN
    is_predicted = (interval.mean < 0) == (comparison.expected is Expected.NEGATIVE)
    return Mark.HOLDS if is_predicted else Mark.FAILS


def _mark_small(interval: ConfidenceInterval, margin: float | None) -> Mark:
    """Return HOLDS for an interval inside ± margin, FAILS for one outside, UNKNOWN otherwise."""
    if _is_within(interval, margin):
        return Mark.HOLDS
    is_outside = interval.half is not None and abs(interval.mean) - interval.half > (margin or 0.0)
    return Mark.FAILS if is_outside else Mark.UNKNOWN


def _is_within(interval: ConfidenceInterval, margin: float | None) -> bool:
    """Whether an interval is inside ± margin; False where one of them is unknown."""
    return margin is not None and interval.half is not None and abs(interval.mean) + interval.half <= margin


def mark_claim(claim: Claim, adjusted: Mapping[Comparison, float]) -> Mark:
    """Return the mark of a claim from those of its comparisons.

    It is the worst mark of those that are measured: does not hold, cannot tell, practically equal, holds.
    """
    if not claim.comparisons:
        return claim.shown
    marks = {mark_comparison(comparison, adjusted) for comparison in claim.comparisons}
    return next((mark for mark in _WORST_FIRST if mark in marks), Mark.MISSING)
