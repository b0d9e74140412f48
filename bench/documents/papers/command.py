"""Marks of docs/papers.md, docs/paper_bln.md, docs/paper_ln.md and docs/ap2.md.

`python -m bench.documents.papers.command --write` writes them into the pages, from bench/results.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.documents.marked_block import write_block
from bench.documents.papers import ap2_claims, bln_claims, ln_claims
from bench.documents.papers.marks import (
    Claim,
    Comparison,
    Expected,
    Mark,
    adjusted_p_values,
    interval_text,
    mark_claim,
    mark_comparison,
)

_DOCS = Path(__file__).parents[3] / "docs"
INDEX = _DOCS / "papers.md"
MARKS, EVIDENCE, PUBLISHED = "marks", "evidence", "published"


@dataclass(frozen=True)
class Paper:
    """A paper with its page.

    Attributes:
        title: Authors, year and title.
        page: The page of its claims.
        claims: Its claims, from bench/results.
    """

    title: str
    page: Path
    claims: Callable[[], tuple[Claim, ...]]


PAPERS = (
    Paper("Ziaee & Çano 2022, *Batch Layer Normalization*", _DOCS / "paper_bln.md", bln_claims.claims),
    Paper("Ba, Kiros & Hinton 2016, *Layer Normalization*", _DOCS / "paper_ln.md", ln_claims.claims),
    Paper(
        "Shekhovtsov & Flach 2018, *Normalization of Neural Networks using Analytic Variance Propagation*",
        _DOCS / "ap2.md",
        ap2_claims.claims,
    ),
)


def index_block() -> str:
    """Return the number of claims of each paper by mark."""
    lines = [f"| paper | {' | '.join(Mark)} |", f"| --- |{' --- |' * len(Mark)}"]
    for paper in PAPERS:
        claims = paper.claims()
        adjusted = adjusted_p_values(claims)
        counts = Counter(mark_claim(claim, adjusted) for claim in claims)
        lines.append(f"| [{paper.title}]({paper.page.name}) | {' | '.join(str(counts[mark]) for mark in Mark)} |")
    return "\n".join([*lines, ""])


def marks_block(paper: Paper) -> str:
    """Return the mark of each claim of a paper."""
    claims = paper.claims()
    adjusted = adjusted_p_values(claims)
    lines = ["| no. | place | claim | mark | evidence |", "| --- | --- | --- | --- | --- |"]
    for number, claim in enumerate(claims, start=1):
        mark = mark_claim(claim, adjusted)
        parts = _count_parts(claim, adjusted)
        lines.append(f"| {number} | {claim.place} | {claim.text} | **{mark}**{parts} | {claim.evidence} |")
    return "\n".join([*lines, ""])


def _count_parts(claim: Claim, adjusted: Mapping[Comparison, float]) -> str:
    """Return how many comparisons of a claim have each mark, if there are several marks."""
    counts = Counter(mark_comparison(comparison, adjusted) for comparison in claim.comparisons)
    if len(counts) < 2:
        return ""
    return f" ({', '.join(f'{counts[mark]} × {mark}' for mark in Mark if counts[mark])})"


def evidence_block(paper: Paper) -> str:
    """Return the measured differences of each claim of a paper."""
    claims = paper.claims()
    adjusted = adjusted_p_values(claims)
    lines = [
        "| no. | difference | seeds | mean, 95 % interval | predicted | p | mark | file |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for number, claim in enumerate(claims, start=1):
        lines += [_evidence_row(number, comparison, adjusted) for comparison in claim.comparisons]
    return "\n".join([*lines, ""])


def _evidence_row(number: int, comparison: Comparison, adjusted: Mapping[Comparison, float]) -> str:
    mark = mark_comparison(comparison, adjusted)
    if mark is Mark.MISSING:
        return f"| {number} | {comparison.setting} | – | – | {_prediction(comparison)} | – | {mark} | – |"
    p = f"{adjusted[comparison]:.2g}" if comparison in adjusted else "–"
    interval = interval_text(comparison.differences, _decimals(comparison), signed=True)
    return (
        f"| {number} | {comparison.setting} | {len(comparison.differences)} | {interval} | {_prediction(comparison)} | "
        f"{p} | {mark} | `{comparison.study}.json` |"
    )


def _decimals(comparison: Comparison) -> int:
    """Return the number of decimals of the differences, more for small ones."""
    return 4 if max(map(abs, comparison.differences)) >= 0.001 else 6


def _prediction(comparison: Comparison) -> str:
    return f"within ± {comparison.margin:.2g}" if comparison.expected is Expected.SMALL else str(comparison.expected)


def block_builders() -> Mapping[tuple[Path, str], Callable[[], str]]:
    """Return a function for the text of each generated block, by page and name of the block."""
    return {
        (INDEX, MARKS): index_block,
        (PAPERS[0].page, PUBLISHED): lambda: "\n".join([*bln_claims.published_lines(), ""]),
        **{(paper.page, MARKS): partial(marks_block, paper) for paper in PAPERS},
        **{(paper.page, EVIDENCE): partial(evidence_block, paper) for paper in PAPERS},
    }


def main() -> None:
    """Print the blocks, or write them into the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the blocks into the pages")
    options = parser.parse_args()
    for (page, name), build in block_builders().items():
        if options.write:
            write_block(page, name, build())
        else:
            print(f"{page.name}, {name}\n\n{build()}")


if __name__ == "__main__":
    main()
