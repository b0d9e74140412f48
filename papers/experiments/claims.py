"""Claims of a paper, read from papers/claims/PAPER.yaml and marked by the figures of bench/results.

The file has the `title` of the paper, its `page`, and its `claims` in order. `shares` names another file of claims of
the same paper: p values are corrected over the comparisons of both. A claim has a `place` in the paper, a
`text`, the `evidence`, and either a `mark`, if tests or a derivation decide it, or comparisons in `compare`. The keys
of a comparison:

- `file`: file of bench/results; p values are corrected over the comparisons of the same study, curves and losses
- `setting`: what differs, and where
- `first`, `second`: the values by seed that are compared, as expressions over the functions of `values`; or
  `differences`, an expression for both
- `expected`: `< 0` (by default) or `> 0`; `within` instead is the margin of a small difference
- `practical`: difference up to which both sides are practically equal, in the unit of the values; none by default. The
  comparisons of a claim, of a group or of the whole file inherit it, unless they have their own, or null for none.

`for` repeats a claim, a group of `claims`, or a comparison: a list of factors, each a list of variables with their
values, in all combinations. Texts are templates in which variables are in double braces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined

from bench.documents.formats import fmt
from bench.support.reporting import NotMeasuredError
from papers.experiments.marks import (
    DECIDED,
    Claim,
    Comparison,
    Expected,
    Mark,
    adjusted_p_values,
    mark_claim,
    mark_comparison,
)
from papers.experiments.values import VALUES

FOLDER = Path(__file__).parents[1] / "claims"
_ENVIRONMENT = Environment(autoescape=False, undefined=StrictUndefined)
_ENVIRONMENT.globals.update(VALUES)
_ENVIRONMENT.filters["fmt"] = fmt

_CLAIM_KEYS = frozenset({"for", "claims", "place", "text", "evidence", "mark", "compare", "practical"})
_COMPARISON_KEYS = frozenset(
    {"for", "file", "setting", "first", "second", "differences", "expected", "within", "practical"}
)

Entry = Mapping[str, Any]
Variables = dict[str, Any]


@dataclass(frozen=True)
class Paper:
    """The claims of a paper.

    Attributes:
        title: Authors, year and title.
        page: Name of its page.
        claims: The claims in the order of the paper.
        shared: The claims of the same paper in another file; p values are corrected over these too.
        corrects_small: Whether p values are corrected over predictions of small differences too.
    """

    title: str
    page: str
    claims: tuple[Claim, ...]
    shared: tuple[Claim, ...] = ()
    corrects_small: bool = False

    @cached_property
    def p_values(self) -> dict[Comparison, float]:
        """The adjusted p value of each comparison that has one."""
        return adjusted_p_values((*self.claims, *self.shared), with_small=self.corrects_small)

    @property
    def counts(self) -> Counter[Mark]:
        """The number of claims with each mark."""
        return Counter(map(self.mark, self.claims))

    @property
    def decided(self) -> int:
        """The number of claims that the studies decide."""
        return sum(self.counts[mark] for mark in DECIDED)

    def mark(self, claim: Claim) -> Mark:
        """Return the mark of a claim."""
        return mark_claim(claim, self.p_values)

    def mark_of(self, comparison: Comparison) -> Mark:
        """Return the mark of a comparison."""
        return mark_comparison(comparison, self.p_values)

    def parts(self, claim: Claim) -> dict[Mark, int]:
        """Return how many comparisons of a claim have each mark, in the order of the marks."""
        counts = Counter(map(self.mark_of, claim.comparisons))
        return {mark: counts[mark] for mark in Mark if counts[mark]}


def read_paper(name: str, folder: Path = FOLDER) -> Paper:
    """Read a file of claims.

    Raises:
        FileNotFoundError: There is no such file, or a file of bench/results that is not that of a study.
        ValueError: An entry has an unknown key, or a margin that is not above 0.
    """
    document = _read(folder, name)
    claims = _claims_of(document)
    shared = _claims_of(_read(folder, document["shares"])) if "shares" in document else ()
    return Paper(document["title"], document["page"], claims, shared, document.get("corrects_small", False))


def _read(folder: Path, name: str) -> Entry:
    document: Entry = yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))
    return document


def _claims_of(document: Entry) -> tuple[Claim, ...]:
    practical = _practical(document, None)
    return tuple(claim for entry in document["claims"] for claim in _read_claims(entry, {}, practical))


def _check_keys(entry: Entry, known: frozenset[str]) -> None:
    unknown = sorted(entry.keys() - known)
    if unknown:
        raise ValueError(f"a claim has the unknown key {', '.join(unknown)}; the keys are {', '.join(sorted(known))}")


def _practical(entry: Entry, inherited: float | None) -> float | None:
    """Return the margin of an entry: its own, or that of the group around it."""
    margin = entry.get("practical", inherited)
    if margin is not None and not (isinstance(margin, int | float) and margin > 0):
        raise ValueError(f"a claim has practical: {margin!r}; it must be a number above 0, or null for no margin")
    return margin


def _read_claims(entry: Entry, outer: Variables, inherited: float | None) -> Iterator[Claim]:
    _check_keys(entry, _CLAIM_KEYS)
    practical = _practical(entry, inherited)
    for variables in _combinations(entry, outer):
        if "claims" in entry:
            for part in entry["claims"]:
                yield from _read_claims(part, variables, practical)
            continue
        place, text, evidence, mark = (
            _render(entry.get(key, ""), variables) for key in ("place", "text", "evidence", "mark")
        )
        comparisons = (
            part for each in entry.get("compare", ()) for part in _read_comparisons(each, variables, practical)
        )
        yield Claim(place, text, evidence, tuple(comparisons), Mark(mark or Mark.MISSING))


def _read_comparisons(entry: Entry, outer: Variables, inherited: float | None) -> Iterator[Comparison]:
    _check_keys(entry, _COMPARISON_KEYS)
    is_small = "within" in entry
    margin = entry["within"] if is_small else _practical(entry, inherited)
    expected = Expected.SMALL if is_small else Expected(entry.get("expected", Expected.NEGATIVE))
    for variables in _combinations(entry, outer):
        try:
            differences = _differences(entry, variables)
        except NotMeasuredError:
            differences = ()
        yield Comparison(
            _render(entry["file"], variables), _render(entry["setting"], variables), differences, expected, margin
        )


def _differences(entry: Entry, variables: Variables) -> tuple[float, ...]:
    if "differences" in entry:
        return tuple(_evaluate(entry["differences"], variables))
    first, second = (_evaluate(entry[side], variables) for side in ("first", "second"))
    return tuple(first[seed] - second[seed] for seed in sorted(first.keys() & second.keys()))


def _combinations(entry: Entry, outer: Variables) -> Iterator[Variables]:
    for variables in product(*entry.get("for", ())):
        yield reduce(lambda merged, each: merged | each, variables, outer)


def _render(text: str, variables: Variables) -> str:
    return _ENVIRONMENT.from_string(text).render(variables)


def _evaluate(expression: str, variables: Variables) -> Any:
    return _ENVIRONMENT.compile_expression(expression, undefined_to_none=False)(variables)
